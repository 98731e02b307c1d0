package config

import (
	"fmt"
	"slices"

	"tidegate/internal/protocols"
)

// maxName is the length of the longest name in bytes: names become metric labels and log fields.
const maxName = 64

// names checks the names of a list of tables: present, plain, and each once.
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

// reference checks that name is one of the names of a list of tables. It says nothing if those are in doubt.
func (v *validator) reference(key, name, list string, names []string) {
	if slices.Contains(names, name) || v.settled[list] {
		return
	}
	for i := range names {
		if v.settled[child(item(list, i), "name")] {
			return
		}
	}
	want := "the name of one of the [[" + list + "]] tables"
	if len(names) == 0 {
		v.fault(key, name, want+"; there is none")
	} else {
		v.fault(key, name, want+": "+either(names))
	}
}

// protocol checks that name is a protocol able to do what is asked of it.
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
		v.fault(key, name, fmt.Sprintf("%q, which is what %s is called here", d.Name, name))
		return
	}
	slices.Sort(names)
	v.fault(key, name, either(names))
}

// where is a table's path and line, to point at it from elsewhere.
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
