package config

import (
	"reflect"

	"tidegate/internal/protocols"
)

// Validate checks a configuration that was changed after Load, with the checks of Load. The error is nil or Faults.
func (c *Config) Validate(known map[string]Traits) (warnings []Fault, err error) {
	r := newReport(c.places)
	c.validate(r, known)
	return r.result()
}

// validate checks everything that the types of the fields cannot.
func (c *Config) validate(r *report, known map[string]Traits) {
	v := validator{Config: c, report: r, known: known}
	v.bounded("", reflect.ValueOf(c).Elem())
	v.loop()
	v.rates()
	v.bans()
	v.kernel()
	v.record()
	for _, d := range protocols.Tables() {
		v.checkOptions(v.Options.Of(d), d.Table)
	}
	v.admin()
	v.fleet()
	v.names("listener", namesOf(v.Listeners, listenerName))
	v.names("route", namesOf(v.Routes, routeName))
	v.names("upstream", namesOf(v.Upstreams, upstreamName))
	v.listeners()
	v.routes()
	v.upstreams()
	v.ownOptions()
	v.channels()
	v.access()
	v.geo()
	v.filters()
	v.bridges()
	v.unused()
}

// unused warns about routes and upstreams without a reference.
func (v *validator) unused() {
	routed, sent := make(map[string]bool), make(map[string]bool)
	for _, l := range v.Listeners {
		routed[l.Route] = true
	}
	for i, r := range v.Routes {
		sent[r.Upstream] = true
		if !routed[r.Name] {
			v.warn(child(item("route", i), "name"), r.Name, "a listener that uses this route")
		}
	}
	for i, u := range v.Upstreams {
		if !sent[u.Name] {
			v.warn(child(item("upstream", i), "name"), u.Name, "a route that uses this upstream")
		}
	}
}
