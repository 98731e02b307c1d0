package config

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"tidegate/internal/protocols"
	"tidegate/internal/regular"
	"tidegate/internal/words"
)

// byteOrderMark is the mark with which some editors begin a file.
var byteOrderMark = []byte("\xef\xbb\xbf")

// maxFile is the size of the largest configuration file that is read.
const maxFile = 1 * MiB

// ErrNoFile says that no default configuration file exists.
var ErrNoFile = errors.New("no configuration file")

// Variables of the environment, for containers. The first names the default file, the second overrides log.level.
const (
	fileVariable  = "TIDEGATE_CONFIG"
	levelVariable = "TIDEGATE_LOG_LEVEL"
)

// Find returns the default configuration file: $TIDEGATE_CONFIG, else ./tidegate.toml, else
// /etc/tidegate/tidegate.toml.
func Find() (string, error) {
	if path := os.Getenv(fileVariable); path != "" {
		return path, nil
	}
	return find("tidegate.toml", "/etc/tidegate/tidegate.toml")
}

func find(paths ...string) (string, error) {
	for _, path := range paths {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for configuration: %w", err)
		}
	}
	return "", fmt.Errorf("%w: neither %s exists; make one with tidegate init", ErrNoFile,
		strings.Join(paths, " nor "))
}

// Load reads a configuration file, and $TIDEGATE_LOG_LEVEL. known has the protocols that it may name. The error is
// Faults, with all faults of the file, if the file is readable but unusable. warnings concern a usable Config.
func Load(path string, known map[string]Traits) (c *Config, warnings []Fault, err error) {
	text, err := read(path)
	if err != nil {
		return nil, nil, err
	}
	if c, warnings, err = Parse(path, text, known); err != nil {
		return nil, nil, err
	}
	if level := os.Getenv(levelVariable); level != "" {
		if c.Log.Level = LogLevel(level); !slices.Contains(c.Log.Level.Choices(), level) {
			return nil, nil, fmt.Errorf("%s = %q: want %s", levelVariable, level, either(c.Log.Level.Choices()))
		}
	}
	return c, warnings, nil
}

// read reads a file up to one byte more than parse accepts.
func read(path string) ([]byte, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, int64(maxFile)+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return text, nil
}

// Parse is Load for a text in memory. name is the file name in faults.
func Parse(name string, text []byte, known map[string]Traits) (c *Config, warnings []Fault, err error) {
	d, tables, err := begin(name, bytes.TrimPrefix(text, byteOrderMark))
	if err != nil {
		return nil, nil, err
	}
	d.table("", reflect.ValueOf(d.config).Elem(), tables)
	d.config.validate(d.report, known)
	if warnings, err = d.report.result(); err != nil {
		return nil, nil, err
	}
	return d.config, warnings, nil
}

// begin parses a text, and returns the decoder that stores its tables in a configuration with all defaults.
func begin(name string, text []byte) (d decoder, tables map[string]any, err error) {
	tables, fault := parse(text)
	if fault != nil {
		fault.File = name
		return d, nil, Faults{*fault}
	}
	c := Default()
	c.places = newIndex(name, text)
	return decoder{newReport(c.places), c}, tables, nil
}

// Text returns the text that the configuration was parsed from.
func (c *Config) Text() string {
	if c.places == nil {
		return ""
	}
	return c.places.text
}

// curlyQuote is a quote that a word processor or a chat has made of a straight one.
var curlyQuote = regexp.MustCompile(`[“”„‟«»‘’]`)

// parse reads TOML. If the text is not TOML, the result is a single fault, since nothing else can be checked.
func parse(text []byte) (map[string]any, *Fault) {
	if len(text) > int(maxFile) {
		return nil, &Fault{Line: 1, Column: 1, Want: fmt.Sprintf("a file of at most %s", maxFile)}
	}
	var tables map[string]any
	err := toml.Unmarshal(text, &tables)
	if err == nil {
		return tables, nil
	}
	if other := otherFormat(text); other != "" {
		return nil, &Fault{Line: 1, Column: 1, Want: other}
	}
	fault := &Fault{Line: 1, Column: 1, Want: "valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
	if syntax, ok := errors.AsType[*toml.DecodeError](err); ok {
		fault.Line, fault.Column = syntax.Position()
		lines := bytes.Split(text, []byte("\n"))
		if quote := curlyQuote.Find(lines[min(max(fault.Line, 1), len(lines))-1]); quote != nil {
			fault.Want = fmt.Sprintf(`straight quotes (") in place of %s`, quote)
		}
		first := newIndex("", text).again[position{fault.Line, fault.Column}]
		if strings.Contains(fault.Want, "already") && first > 0 {
			fault.Want += fmt.Sprintf(" on line %d", first)
		}
	}
	return nil, fault
}

// LoadAdmin reads only the [admin] table of a configuration file. So commands reach a running proxy while the rest of
// the file is being edited. The error is Faults if the table or the file has faults.
func LoadAdmin(path string) (Admin, error) {
	c, err := loadTable(path, "admin", "Admin", (*validator).admin)
	if err != nil {
		return Admin{}, err
	}
	return c.Admin, nil
}

// loadTable reads only the table with a key, into a field of Config.
func loadTable(path, key, field string, check func(*validator)) (*Config, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	d, tables, err := begin(path, text)
	if err != nil {
		return nil, err
	}
	to := reflect.ValueOf(d.config).Elem().FieldByName(field)
	if table, ok := tables[key]; ok {
		d.value(key, to, table)
	}
	v := &validator{Config: d.config, report: d.report}
	v.bounded(key, to)
	check(v)
	_, err = d.report.result()
	return d.config, err
}

// LoadBans reads only the [bans] table of a configuration file. So commands can ban while the rest of the file is
// being edited. The file in the result is a path that a command can open.
func LoadBans(path string) (Bans, error) {
	c, err := loadTable(path, "bans", "Bans", (*validator).bans)
	if err != nil {
		return Bans{}, err
	}
	c.Bans.File = c.Path(c.Bans.File)
	return c.Bans, nil
}

// Marks by which texts in other encodings and formats are recognised.
var (
	utf16Marks = [][]byte{{0xff, 0xfe}, {0xfe, 0xff}}
	yamlLine   = regexp.MustCompile(`(?m)^\s*(- )?[A-Za-z_][\w-]*:(\s|$)`)
	tomlLine   = regexp.MustCompile(`(?m)^\s*(\[|[\w."-]+\s*=)`)
)

// otherFormat returns the remedy for a text that is not TOML, if it is in a format or encoding that people take for
// it.
func otherFormat(text []byte) string {
	switch {
	case bytes.HasPrefix(text, utf16Marks[0]), bytes.HasPrefix(text, utf16Marks[1]):
		return "a text in UTF-8; this one is in UTF-16, so save it as UTF-8"
	case bytes.IndexByte(text, 0) >= 0:
		return "a text; this is a program or another binary file"
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return "TOML; this looks like JSON: write key = value, below a [[header]] for each table"
	case yamlLine.Match(text) && !tomlLine.Match(text):
		return "TOML; this looks like YAML: write key = value in place of key: value, below a [[header]] for each table"
	case bytes.IndexByte(text, '\r') >= 0 && bytes.IndexByte(text, '\n') < 0:
		return "lines that end with a line feed; these end with a carriage return only"
	}
	return ""
}

// decoder stores a parsed file in a Config. It reports every unknown key and every value of the wrong form. Such a
// value leaves the field unchanged. In a list, its element is the zero value, so that indices stay correct.
type decoder struct {
	report *report
	config *Config
}

// table stores the keys of a table in the struct to. Lists come last, because their tables inherit values of others.
func (d decoder) table(path string, to reflect.Value, table map[string]any) {
	keys := slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		_, aList := table[a].([]any)
		_, bList := table[b].([]any)
		if aList == bList {
			return cmp.Compare(a, b)
		}
		return map[bool]int{true: 1, false: -1}[aList]
	})
	for _, key := range keys {
		if of, ok := to.Addr().Interface().(owner); ok {
			of.own().begin(key, d.config.Options)
		}
		if field, ok := fieldOf(to, key); ok {
			d.value(child(path, key), field, table[key])
		} else {
			d.unknown(path, key, table, to)
		}
	}
}

func (d decoder) value(path string, to reflect.Value, value any) {
	if d.fits(path, to, value) {
		return
	}
	want := expected(to.Type())
	if text, ok := value.(string); ok {
		if c, ok := to.Interface().(choice); ok {
			if near, ok := words.Ours(text, c.Choices()); ok {
				want += fmt.Sprintf("; did you mean %q?", near)
			}
		}
		switch to.Type() {
		case addressType, serverType:
			want = expectedAddress(to.Type(), text)
		case durationType:
			want = expectedDuration(text)
		case prefixType:
			want = expectedPrefix(text)
		}
	}
	d.report.fault(path, value, want)
}

// fits stores value in to and reports whether its form is right. Faults inside a table or list are reported there.
func (d decoder) fits(path string, to reflect.Value, value any) bool {
	switch value := value.(type) {
	case map[string]any:
		switch {
		case to.Kind() == reflect.Map:
			d.entries(path, to, value)
		case to.Kind() == reflect.Struct && to.Type() != addressType && to.Type() != discoverType:
			d.table(path, to, value)
		default:
			return false
		}
		return true
	case []any:
		if to.Kind() != reflect.Slice {
			return false
		}
		d.list(path, to, value)
		return true
	case string:
		return fitsText(to, value)
	case bool:
		if to.Kind() != reflect.Bool {
			return false
		}
		to.SetBool(value)
		return true
	case int64:
		return fitsNumber(to, value)
	default:
		return false
	}
}

// entries stores a table whose keys are chosen by the user.
func (d decoder) entries(path string, to reflect.Value, table map[string]any) {
	to.Set(reflect.MakeMap(to.Type()))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		entry := reflect.New(to.Type().Elem()).Elem()
		d.value(child(path, key), entry, table[key])
		to.SetMapIndex(reflect.ValueOf(key), entry)
	}
}

func (d decoder) list(path string, to reflect.Value, list []any) {
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, value := range list {
		element := to.Index(i)
		setDefaults(element)
		if entry, ok := element.Addr().Interface().(owner); ok {
			entry.inherit(d.config)
		}
		d.value(item(path, i), element, value)
	}
}

// unknown reports a key that the table does not have. A similar known key is probably meant, so it is not also
// reported as missing.
func (d decoder) unknown(path, key string, table map[string]any, to reflect.Value) {
	full := child(path, key)
	was := indices.ReplaceAllString(parent(cmp.Or(processKey(full), full)), "") // the table, in an earlier release
	if now := allFormer()[was][key]; now != "" {
		d.report.unknown(full, table[key], "this key removed: "+now)
		return
	}
	known := keysOf(to.Type())
	want := "a known key: " + enumerate(known)
	if near, ok := words.Nearest(key, known); ok {
		want = fmt.Sprintf("a known key; did you mean %q?", near)
		if _, stated := table[near]; !stated {
			d.report.suppress(child(path, near))
		}
	}
	d.report.unknown(child(path, key), table[key], want)
}

func fitsText(to reflect.Value, text string) bool {
	if reader, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return reader.UnmarshalText([]byte(text)) == nil
	}
	if c, ok := to.Interface().(choice); ok && !slices.Contains(c.Choices(), text) {
		return false
	}
	if to.Kind() != reflect.String {
		return false
	}
	to.SetString(text)
	return true
}

func fitsNumber(to reflect.Value, number int64) bool {
	switch {
	case to.Type() == durationType || to.Type() == sizeType:
		return false
	case to.CanInt() && !to.OverflowInt(number):
		to.SetInt(number)
		return true
	case to.CanUint() && !to.OverflowUint(uint64(number)): // also false for negative numbers
		to.SetUint(uint64(number))
		return true
	}
	return false
}

// everyTable is the tag of Config.Options, whose keys are the names of tables.
const everyTable = "*"

// fieldOf returns the field of a struct with a key.
func fieldOf(table reflect.Value, key string) (reflect.Value, bool) {
	for i := range table.NumField() {
		if table.Type().Field(i).Tag.Get("toml") == key && key != "" {
			return table.Field(i), true
		}
		if table.Type().Field(i).Tag.Get("toml") == everyTable {
			if options := table.Field(i).Interface().(Options)[key]; options != nil {
				return reflect.ValueOf(options).Elem(), true
			}
		}
	}
	return reflect.Value{}, false
}

// keysOf lists the keys of a struct in the order of its fields. Fields without a tag have no key.
func keysOf(t reflect.Type) []string {
	keys := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		switch key := t.Field(i).Tag.Get("toml"); key {
		case "":
		case everyTable:
			for _, d := range protocols.Tables() {
				keys = append(keys, d.Table)
			}
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

//go:embed former.toml
var formerKeys []byte

var indices = regexp.MustCompile(`\[\d+\]`)

// allFormer has what formerly says, by table and key.
var allFormer = sync.OnceValue(func() (all map[string]map[string]string) {
	_ = toml.Unmarshal(formerKeys, &all) // a test reads it, too
	return all
})
