package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"tidegate/internal/regular"
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
