package config

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/protocols"
)

// Traits are the facts about a protocol that configuration checks need.
type Traits struct {
	Ordered   bool // the protocol can keep messages in order
	Sequenced bool // it can drop messages older than the last delivered one
	Reliable  bool // it can resend until acknowledged
	IDs       bool // its messages have an ID beside the payload
	Server    bool // listeners can use it
	Client    bool // upstreams can use it
	Stream    bool // TCP can carry it
	Reports   bool // it can report losses, and drops messages older than the last delivered one
	Joins     bool // several messages may arrive as one
	Closed    bool // it carries only its own messages
	Pings     bool // its servers answer pings with a server list text
	Opaque    bool // it stands for any protocol, also an unknown one; it can be relayed, not terminated
	// Accepts names other protocols whose new clients this one accepts if it is listed first. true means all of them.
	Accepts map[string]bool
	// Inputs names the inputs that its players send and its servers accept. nil means any.
	Inputs []string
	// Openers are the bytes that, alone in a datagram, look like a new client.
	Openers codec.ByteSet
	// Types is nil unless some dialect encodes payloads differently. It returns the remedy for a type that this dialect
	// does not know, or "".
	Types func(name string) (want string)
}

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
	v.limits()
	v.rates()
	v.bans()
	v.kernel()
	v.record()
	for _, d := range protocols.Tables() {
		v.options(d)
	}
	v.admin()
	v.fleet()
	v.names("listener", namesOf(v.Listeners, listenerName))
	v.names("route", namesOf(v.Routes, routeName))
	v.names("upstream", namesOf(v.Upstreams, upstreamName))
	v.listeners()
	v.routes()
	v.upstreams()
	v.access()
	v.geo()
	v.filters()
	v.bridges()
	v.unused()
}

// validator is one run of validate.
type validator struct {
	*Config
	*report
	known map[string]Traits
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

// within reports a value outside of low to high, both included.
func within[T cmp.Ordered](r *report, key string, value, low, high T) {
	if value < low || value > high {
		r.fault(key, value, render(low)+" to "+render(high))
	}
}

// unique reports a list that is empty, where atLeastOne is the remedy, or has duplicates.
func unique[T comparable](r *report, key string, list []T, atLeastOne string) {
	if len(list) == 0 {
		r.fault(key, list, atLeastOne)
	}
	for i, element := range list {
		if first := slices.Index(list, element); first < i && !r.suppressed[item(key, first)] {
			r.fault(item(key, i), element, "each only once; "+item(key, first)+" is the same")
		}
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }

func milliseconds(n int) Duration { return Duration(time.Duration(n) * time.Millisecond) }
