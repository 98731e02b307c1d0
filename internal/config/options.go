package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
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

// owner is a listener or an upstream: what the process's tables say holds there, unless it says something else.
type owner interface {
	inherit(c *Config) // takes over single keys
	own() *Options
}

func (l *Listener) own() *Options     { return &l.Own }
func (u *Upstream) own() *Options     { return &u.Own }
func (l *Listener) inherit(c *Config) { l.IdleTimeout = c.Limits.IdleTimeout }
func (*Upstream) inherit(*Config)     {}

// Over returns all tables, those of o in place of the process's.
func (o Options) Over(process Options) Options {
	all := maps.Clone(process)
	maps.Copy(all, o)
	return all
}

// begin makes an owner's table of a protocol. It begins with the values of the process's table, which is decoded
// already.
func (o *Options) begin(table string, process Options) {
	from, ok := process[table]
	if !ok || (*o)[table] != nil {
		return
	}
	if *o == nil {
		*o = make(Options)
	}
	to := reflect.New(reflect.TypeOf(from).Elem())
	to.Elem().Set(reflect.ValueOf(from).Elem())
	(*o)[table] = to.Interface()
}

// owners yields the listeners and the upstreams with their paths.
func (c *Config) owners(yield func(path string, of owner) bool) {
	for i := range c.Listeners {
		if !yield(item("listener", i), &c.Listeners[i]) {
			return
		}
	}
	for i := range c.Upstreams {
		if !yield(item("upstream", i), &c.Upstreams[i]) {
			return
		}
	}
}

// tablesOf returns the names of an owner's tables, in order.
func tablesOf(of owner) []string { return slices.Sorted(maps.Keys(*of.own())) }

// Origins says where the values of keys come from that a listener or an upstream may have of its own, by the path of
// the key: "line 12", "[riptide], line 30" or "default". It is empty if the configuration was not read from a file.
func (c *Config) Origins() map[string]string {
	all := make(map[string]string)
	if c.places == nil {
		return all
	}
	for path, of := range c.owners {
		if _, ok := of.(*Listener); ok {
			all[child(path, "idle_timeout")] = c.origin(child(path, "idle_timeout"))
		}
		for _, table := range tablesOf(of) {
			for _, key := range keysOf(reflect.TypeOf((*of.own())[table]).Elem()) {
				full := child(child(path, table), key)
				all[full] = c.origin(full)
			}
		}
	}
	return all
}

// origin says where the value of an owner's key comes from.
func (c *Config) origin(key string) string {
	switch process := processKey(key); {
	case c.places.has(key):
		return fmt.Sprintf("line %d", c.places.find(key).key.line)
	case c.places.has(process):
		return fmt.Sprintf("[%s], line %d", parent(process), c.places.find(process).key.line)
	}
	return "default"
}
