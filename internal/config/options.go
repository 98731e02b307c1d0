package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// Options holds a pointer to the options struct of each table of protocols, by the table's name.
type Options map[string]any

func defaultOptions() Options {
	all := make(Options)
	for _, d := range protocols.Tables() {
		all[d.Table] = d.Options()
	}
	return all
}

// Of returns the options of a protocol.
func (o Options) Of(d *registry.Descriptor) any { return o[d.Table] }

// bound reads a bound or a default from a tag. They have the same form as values in the file.
func bound(field reflect.Value, text string) reflect.Value {
	b := reflect.New(field.Type()).Elem()
	if b.Kind() == reflect.Bool {
		b.SetBool(text == "true")
		return b
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if fits := err == nil && fitsNumber(b, n) || fitsText(b, text); !fits {
		panic(fmt.Sprintf("bound %q does not fit %s", text, field.Type()))
	}
	return b
}

// setDefaults gives the fields of a table, and of the tables in it, the defaults of their tags. Lists of values are
// empty and not nil.
func setDefaults(table reflect.Value) {
	if table.Kind() != reflect.Struct {
		return
	}
	for i := range table.NumField() {
		tags, value := table.Type().Field(i).Tag, table.Field(i)
		switch text := tags.Get(registry.TagDefault); {
		case tags.Get("toml") == "":
		case isTable(value.Type()):
			setDefaults(value)
		case value.Kind() == reflect.Slice && !isTable(value.Type().Elem()):
			value.Set(reflect.MakeSlice(value.Type(), 0, 0))
			for word := range strings.SplitSeq(text, ",") {
				if word != "" {
					value.Set(reflect.Append(value, bound(reflect.Zero(value.Type().Elem()), word)))
				}
			}
		case text != "":
			value.Set(bound(value, text))
		}
	}
}

// whole returns a number of any integer type.
func whole(v reflect.Value) int64 {
	if v.CanUint() {
		return int64(v.Uint())
	}
	return v.Int()
}
