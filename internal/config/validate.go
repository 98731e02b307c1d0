package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tidegate/codec"
	"tidegate/internal/each"
	"tidegate/internal/protocols"
	"tidegate/internal/words"
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
	v.names("listener", each.Of(v.Listeners, listenerName))
	v.names("route", each.Of(v.Routes, routeName))
	v.names("upstream", each.Of(v.Upstreams, upstreamName))
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

// maxName is the length in bytes of the longest name. Names become metric labels and log fields.
const maxName = 64

// engines has the protocol that games of an engine or a family often speak.
var engines = map[string]string{
	"unity": "riptide-2.2", "godot": "enet", "minecraft": "bedrock", "mcpe": "bedrock", "webrtc": "nethernet",
}

// names checks the names of a list of tables. Each must be present, consist of allowed characters, and be unique.
func (v *validator) names(list string, names []string) {
	for i, name := range names {
		key := child(item(list, i), "name")
		if !isBare(name) || len(name) > maxName {
			v.fault(key, name, fmt.Sprintf("a name of 1 to %d letters, digits, - and _", maxName))
		} else if first := slices.Index(names, name); first < i {
			v.fault(key, name, "a name of its own; "+v.where(item(list, first))+" has it already")
		}
	}
}

// reference checks that name is one of the names of a list of tables. It reports nothing if those names have faults.
func (v *validator) reference(key, name, list string, names []string) {
	if name != "" && slices.Contains(names, name) || v.suppressed[list] {
		return
	}
	if name != "" && slices.ContainsFunc(names, func(name string) bool { return name == "" }) {
		return // one of the tables without a name may be meant
	}
	for i := range names {
		if name != "" && v.suppressed[child(item(list, i), "name")] {
			return
		}
	}
	want := "the name of one of the [[" + list + "]] tables"
	named := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	switch {
	case len(names) == 0:
		v.fault(key, name, want+"; there is none")
	case len(named) == 0:
		v.fault(key, name, want+"; give it one")
	default:
		v.fault(key, name, want+": "+either(named))
	}
}

// protocol checks that name is a protocol with an ability.
func (v *validator) protocol(key, name string, able func(Traits) bool) {
	names := v.able(able)
	if slices.Contains(names, name) {
		return
	}
	if d := protocols.Find(name); d != nil && d.Name != name && slices.Contains(names, d.Name) {
		v.fault(key, name, fmt.Sprintf("%q, Tidegate's name for %s", d.Name, name))
		return
	}
	want := either(names)
	versions := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, name+"-") })
	near, isNear := words.Nearest(name, names)
	engine, isEngine := engines[strings.ToLower(name)]
	_, isKnown := v.known[name]
	switch {
	case len(versions) > 1:
		want = "one of its versions: " + either(versions)
	case isEngine && slices.Contains(names, engine):
		want = fmt.Sprintf("a known protocol; %s games often speak %q", name, engine)
	case isNear:
		want = fmt.Sprintf("a known protocol; did you mean %q?", near)
	case name != "" && !isKnown && slices.Contains(names, "any"):
		want += `; any other protocol is "any" on a route with mode = "relay"`
	}
	v.fault(key, name, want)
}

// able returns the names of the protocols with an ability, sorted.
func (v *validator) able(is func(Traits) bool) (names []string) {
	for name, traits := range v.known {
		if is(traits) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// where returns a table's path and line, for references to it.
func (v *validator) where(path string) string {
	if at := v.source.find(path).key; at.line > 0 {
		return fmt.Sprintf("%s on line %d", path, at.line)
	}
	return path
}

func routeName(r Route) string       { return r.Name }
func upstreamName(u Upstream) string { return u.Name }
func listenerName(l Listener) string { return l.Name }
