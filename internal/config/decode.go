package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"tidegate/internal/protocols"
)

// decoder moves a parsed file into a Config and reports every key and value that does not fit. A value that does not
// fit leaves the field as it was; an element of a list then is its type's zero value, so that indices stay true.
type decoder struct{ report *report }

// table moves the keys of a table into the struct to.
func (d decoder) table(path string, to reflect.Value, table map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if field, ok := fieldOf(to, key); ok {
			d.value(child(path, key), field, table[key])
		} else {
			d.unknown(path, key, table, keysOf(to.Type()))
		}
	}
}

func (d decoder) value(path string, to reflect.Value, value any) {
	if d.fits(path, to, value) {
		return
	}
	want := wanted(to.Type())
	if text, ok := value.(string); ok {
		switch to.Type() {
		case addressType, serverType:
			want = wantedAddress(text)
		case durationType:
			want = wantedDuration(text)
		}
	}
	if prefix, ok := value.(string); ok && to.Type() == prefixType {
		want = wantedPrefix(prefix)
	}
	d.report.fault(path, value, want)
}

// fits stores value in to and reports whether it could. What is wrong within a table or list is reported within.
func (d decoder) fits(path string, to reflect.Value, value any) bool {
	switch value := value.(type) {
	case map[string]any:
		switch {
		case to.Kind() == reflect.Map:
			d.entries(path, to, value)
		case to.Kind() == reflect.Struct && to.Type() != addressType && to.Type() != networkType && to.Type() != discoverType:
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

// entries moves a table whose keys are the user's own words.
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
		if entry, ok := element.Addr().Interface().(defaulter); ok {
			entry.setDefaults()
		}
		d.value(item(path, i), element, value)
	}
}

// unknown reports a key that the table does not have. The key that was plainly meant is not reported as missing too.
func (d decoder) unknown(path, key string, table map[string]any, known []string) {
	want := "a known key: " + enumerate(known)
	if near, ok := nearest(key, known); ok {
		want = fmt.Sprintf("a known key; did you mean %q?", near)
		if _, stated := table[near]; !stated {
			d.report.settle(child(path, near))
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
	case to.CanUint() && !to.OverflowUint(uint64(number)): // which a negative number does too
		to.SetUint(uint64(number))
		return true
	}
	return false
}

// everyTable is the tag of Config.Options, whose keys are names of tables.
const everyTable = "*"

// fieldOf is the field of a struct that has a key.
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

// keysOf lists the keys of a struct in the order of its fields; fields that are not for the file have none.
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
