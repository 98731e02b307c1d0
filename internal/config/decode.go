package config

import (
	"cmp"
	_ "embed"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"tidegate/internal/protocols"
	"tidegate/internal/words"
)

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
	if now := formerly(path, key); now != "" {
		d.report.unknown(child(path, key), table[key], "this key removed: "+now)
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

// formerly says how things are now for a key that the table at path had in an earlier release.
func formerly(path, key string) (now string) {
	full := child(path, key)
	return allFormer()[indices.ReplaceAllString(parent(cmp.Or(processKey(full), full)), "")][key]
}
