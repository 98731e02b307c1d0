package config

import (
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/protocols"
	"tidegate/internal/words"
)

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
	var names []string
	for candidate, traits := range v.known {
		if able(traits) {
			names = append(names, candidate)
		}
	}
	if slices.Contains(names, name) {
		return
	}
	if d := protocols.Find(name); d != nil && d.Name != name && slices.Contains(names, d.Name) {
		v.fault(key, name, fmt.Sprintf("%q, Tidegate's name for %s", d.Name, name))
		return
	}
	slices.Sort(names)
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

// where returns a table's path and line, for references to it.
func (v *validator) where(path string) string {
	if at := v.source.find(path).key; at.line > 0 {
		return fmt.Sprintf("%s on line %d", path, at.line)
	}
	return path
}

func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, entry := range list {
		names[i] = name(entry)
	}
	return names
}

func routeName(r Route) string       { return r.Name }
func upstreamName(u Upstream) string { return u.Name }
func listenerName(l Listener) string { return l.Name }
