package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

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
