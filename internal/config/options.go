package config

import (
	"fmt"
	"reflect"
	"strconv"

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

// bound reads a bound from a tag. Bounds have the same form as values in the file.
func bound(field reflect.Value, text string) reflect.Value {
	b := reflect.New(field.Type()).Elem()
	n, err := strconv.ParseInt(text, 10, 64)
	if fits := err == nil && fitsNumber(b, n) || fitsText(b, text); !fits {
		panic(fmt.Sprintf("bound %q does not fit %s", text, field.Type()))
	}
	return b
}

// whole returns a number of any integer type.
func whole(v reflect.Value) int64 {
	if v.CanUint() {
		return int64(v.Uint())
	}
	return v.Int()
}
