package config

import (
	"reflect"

	"tidegate/codec"
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

// Traits are the facts about a protocol that configuration checks need.
type Traits struct {
	Ordered   bool // the protocol can keep messages in order
	Sequenced bool // it can drop messages older than the last delivered one
	Reliable  bool // it can resend until acknowledged
	IDs       bool // its messages have an ID beside the payload
	FirstByte bool // the first byte of its messages names them
	Modes     codec.Modes
	Channels  int  // its number of ordering channels
	Server    bool // listeners can use it
	Client    bool // upstreams can use it
	Stream    bool // TCP can carry it
	Reports   bool // it can report losses, and drops messages older than the last delivered one
	Joins     bool // several messages may arrive as one
	Closed    bool // it carries only its own messages
	Pings     bool // its servers answer pings with a server list text
	Edge      bool // its clients join over HTTP
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

// validator is one run of validate.
type validator struct {
	*Config
	*report
	known map[string]Traits
}
