package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"tidegate/codec/enet"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
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

// inherited matches the keys of an owner that may be the process's.
var inherited = regexp.MustCompile(`^(?:listener|upstream)\[\d+\]\.(idle_timeout|\w+\..+)$`)

// processKey returns the process's key for a key of an owner, or nothing.
func processKey(key string) string {
	switch found := inherited.FindStringSubmatch(key); {
	case found == nil:
		return ""
	case found[1] == "idle_timeout":
		return child("limits", found[1])
	default:
		return found[1]
	}
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

// ownOptions checks the tables of listeners and upstreams.
func (v *validator) ownOptions() {
	for path, of := range v.owners {
		var speaks []string
		switch of := of.(type) {
		case *Listener:
			speaks = of.Protocols
		case *Upstream:
			speaks = []string{of.Protocol}
		}
		for _, table := range tablesOf(of) {
			key := child(path, table)
			v.checkOptions((*of.own())[table], key)
			if !slices.ContainsFunc(speaks, func(name string) bool {
				d := protocols.Find(name)
				return d != nil && d.Table == table
			}) {
				v.fault(key, nil, "no such table, or a protocol that uses it: "+enumerate(speaks)+" does not")
			}
		}
	}
}

// channels warns about listeners that grant ENet's players channels that their servers do not have.
func (v *validator) channels() {
	for i := range v.Listeners {
		l := &v.Listeners[i]
		r := slices.IndexFunc(v.Routes, func(r Route) bool { return r.Name == l.Route })
		if r < 0 || v.Routes[r].Mode.Is(policy.ModeRelay) || !slices.Contains(l.Protocols, "enet") {
			continue
		}
		u := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == v.Routes[r].Upstream })
		if u < 0 || v.Upstreams[u].Protocol != "enet" {
			continue
		}
		key := child(child(item("listener", i), "enet"), "channels")
		granted, asked := channelsOf(l.Own.Over(v.Options)), channelsOf(v.Upstreams[u].Own.Over(v.Options))
		if granted > asked && v.source.has(key) {
			v.warn(key, granted, fmt.Sprintf("at most %d, or a larger enet.channels for %s: messages of further channels "+
				"go to channel 0 of its servers", asked, v.where(item("upstream", u))))
		}
	}
}

func channelsOf(o Options) int { return o["enet"].(*enet.Settings).Channels }
