package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// TOML writes the configuration as a file with every key that has a value, and without secrets: but for those, what Load
// makes of it is the same.
func (c *Config) TOML() string {
	var p printer
	p.table("", reflect.ValueOf(*c))
	return strings.TrimPrefix(p.String(), "\n")
}

// printer writes tables. Those within a table come after its other keys, as TOML wants it.
type printer struct{ strings.Builder }

func (p *printer) table(path string, table reflect.Value) {
	for _, name := range keysOf(table.Type()) {
		if value, _ := fieldOf(table, name); !holdsTables(value.Type()) && !unstated(value) {
			fmt.Fprintf(p, "%s = %s\n", name, literal(value))
		}
	}
	for _, name := range keysOf(table.Type()) {
		value, _ := fieldOf(table, name)
		switch {
		case !holdsTables(value.Type()):
		case value.Kind() == reflect.Slice:
			for j := range value.Len() {
				fmt.Fprintf(p, "\n[[%s]]\n", child(path, name))
				p.table(child(path, name), value.Index(j))
			}
		default:
			fmt.Fprintf(p, "\n[%s]\n", child(path, name))
			p.table(child(path, name), value)
		}
	}
}

// holdsTables reports whether a type is that of tables, or of a list of them.
func holdsTables(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && len(keysOf(t)) > 0
}

// unstated reports whether a value is none: a word that was not chosen, or an address that is not there.
func unstated(v reflect.Value) bool {
	word, isChoice := v.Interface().(choice)
	return v.IsZero() && (v.Type() == addressType ||
		isChoice && v.Kind() == reflect.String && !slices.Contains(word.Choices(), ""))
}

// literal writes a value that is no table.
func literal(v reflect.Value) string {
	if text, ok := v.Interface().(fmt.Stringer); ok {
		return basic(text.String())
	}
	switch v.Kind() {
	case reflect.String:
		return basic(v.String())
	case reflect.Slice:
		elements := make([]string, v.Len())
		for i := range elements {
			elements[i] = literal(v.Index(i))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case reflect.Map:
		var entries []string
		for _, key := range v.MapKeys() {
			entries = append(entries, basic(key.String())+" = "+literal(v.MapIndex(key)))
		}
		slices.Sort(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// basic is a text in quotes. Those of JSON are TOML's, but for the one control character that JSON leaves as it is.
func basic(text string) string {
	quoted, _ := json.Marshal(text) // a string is always written
	return strings.ReplaceAll(string(quoted), "\x7f", `\u007f`)
}
