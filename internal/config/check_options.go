package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// checkOptions checks a table of a protocol by the protocol's own rules.
func (v *validator) checkOptions(options any, path string) {
	if c, ok := options.(registry.Checker); ok {
		c.Check(optionReport{v, path})
	}
}

// bounded checks the values of a table, and of the tables in it, by the tags of their fields.
func (v *validator) bounded(path string, table reflect.Value) {
	for i := range table.NumField() {
		field, value := table.Type().Field(i), table.Field(i)
		key := child(path, field.Tag.Get("toml"))
		switch {
		case field.Tag.Get("toml") == everyTable:
			for _, d := range protocols.Tables() {
				if options := value.Interface().(Options).Of(d); options != nil {
					v.bounded(child(path, d.Table), reflect.ValueOf(options).Elem())
				}
			}
		case field.Tag.Get("toml") == "":
		case isTable(value.Type()):
			v.bounded(key, value)
		case value.Kind() == reflect.Slice && isTable(value.Type().Elem()):
			for j := range value.Len() {
				v.bounded(item(key, j), value.Index(j))
			}
		default:
			v.bounds(key, value, field.Tag)
		}
	}
}

// bounds checks one value by the tags of its field.
func (v *validator) bounds(key string, value reflect.Value, tags reflect.StructTag) {
	low, high := tags.Get(registry.TagMin), tags.Get(registry.TagMax)
	if processKey(key) != "" && !v.source.has(key) {
		return // it is the process's value, which is checked there
	}
	if _, ok := tags.Lookup(registry.TagSet); ok {
		v.set(key, value)
	}
	switch {
	case high == "":
	case value.Kind() == reflect.String:
		v.length(key, value.String(), high)
	default:
		if n := whole(value); n < whole(bound(value, low)) || n > whole(bound(value, high)) {
			v.fault(key, value.Interface(), render(bound(value, low).Interface())+" to "+render(bound(value, high).Interface()))
		}
	}
}

// length checks the number of bytes of a text.
func (v *validator) length(key, text, high string) {
	if most, _ := strconv.Atoi(high); len(text) > most {
		v.fault(key, text, "at most "+high+" bytes of text")
	}
}

// set checks that a list has no duplicates.
func (v *validator) set(key string, list reflect.Value) {
	elements := make([]any, list.Len())
	for i := range elements {
		elements[i] = list.Index(i).Interface()
	}
	unique(v.report, key, elements, "")
}

// optionReport collects a table's faults.
type optionReport struct {
	v     *validator
	table string
}

// Fault implements registry.Report.
func (r optionReport) Fault(key string, value any, want string) {
	r.v.fault(child(r.table, key), value, want)
}

// Entry implements registry.Report.
func (r optionReport) Entry(key, entry string, value any, want string) {
	r.v.fault(child(child(r.table, key), entry), value, want)
}

// Key implements registry.Report.
func (r optionReport) Key(key string, value *Key, because string, needed bool) {
	r.v.secret(child(r.table, key), because, value, needed)
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

func channelsOf(o Options) int { return o["enet"].(*protocols.ENetSettings).Channels }
