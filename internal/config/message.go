package config

import (
	"slices"
	"strings"
)

// maxMessageID is the largest message ID, which has 16 bits on every wire.
const maxMessageID = 65535

// messages checks the declared messages of the route at path. Dialects are the protocols between which payloads are
// spelled anew; none if they pass as they are.
func (v *validator) messages(path string, r Route, dialects []string) {
	ids := make([]int, len(r.Messages))
	for i, m := range r.Messages {
		ids[i] = m.ID
		entry := item(child(path, "message"), i)
		v.messageID(entry, m.ID)
		if len(m.Types) == 0 {
			v.fault(child(entry, "types"), nil, `at least one type of value, for example ["ushort", "vector3"]`)
		}
		for j, name := range m.Types {
			v.typeName(item(child(entry, "types"), j), name, dialects)
		}
		if first := slices.Index(ids, m.ID); first < i {
			v.fault(child(entry, "id"), m.ID,
				"an ID of its own; "+v.where(item(child(path, "message"), first))+" has it already")
		}
	}
	v.adviseMessages(path, r, dialects)
}

func (v *validator) messageID(entry string, id int) {
	key := child(entry, "id")
	if id < 0 && !v.source.has(key) {
		v.fault(key, nil, "0 to 65535")
	}
	within(v.report, key, id, 0, maxMessageID)
}

// typeName checks that all of the dialects have a type, and reports what the first one says that has not.
func (v *validator) typeName(key, name string, dialects []string) {
	for _, dialect := range dialects {
		if want := v.known[dialect].Types(name); want != "" {
			v.fault(key, name, want)
		}
	}
}

// adviseMessages warns of declarations without effect, and of dialects without declarations.
func (v *validator) adviseMessages(path string, r Route, dialects []string) {
	key := child(path, "message")
	switch {
	case len(dialects) > 0 && len(r.Messages) == 0:
		v.warn(key, nil, "a [[route.message]] table for each message ID: "+strings.Join(dialects, " and ")+
			" spell some values differently, and nothing says which")
	case len(dialects) == 0 && len(r.Messages) > 0:
		v.warn(item(key, 0), nil,
			"none: on this route payloads pass as they are, and the types of their values change nothing")
	case len(dialects) == 0 && r.Undeclared == UndeclaredDrop:
		v.warn(child(path, "undeclared"), r.Undeclared, `"pass": on this route payloads pass as they are, declared or not`)
	}
}
