package config

import (
	"slices"
	"strings"
)

// Message declares the values of a message, so that its payload can be encoded for another dialect.
type Message struct {
	ID    int      `toml:"id"`    // 0 to 65535; negative: not stated
	Types []string `toml:"types"` // of its values, in order
}

func (m *Message) setDefaults() { *m = Message{ID: -1} }

// Undeclared is the handling of messages without declared types between dialects that encode values differently.
type Undeclared string

// Ways to handle undeclared messages.
const (
	UndeclaredPass Undeclared = "pass" // unchanged
	UndeclaredDrop Undeclared = "drop" // dropped and counted
)

// Choices lists the words of the configuration.
func (Undeclared) Choices() []string { return choices(UndeclaredPass, UndeclaredDrop) }

// maxMessageID is the largest message ID. IDs have 16 bits in every protocol.
const maxMessageID = 65535

// messages checks the declared messages of the route at path. dialects are the protocols that need translation of
// payloads. Without any, payloads pass unchanged.
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

// typeName checks that all dialects have a type. It reports the remedy of the first dialect without it.
func (v *validator) typeName(key, name string, dialects []string) {
	for _, dialect := range dialects {
		if want := v.known[dialect].Types(name); want != "" {
			v.fault(key, name, want)
		}
	}
}

// adviseMessages warns about declarations without effect, and about dialects without declarations.
func (v *validator) adviseMessages(path string, r Route, dialects []string) {
	key := child(path, "message")
	switch {
	case len(dialects) > 0 && len(r.Messages) == 0:
		v.warn(key, nil, "a [[route.message]] table for each message ID: "+strings.Join(dialects, " and ")+
			" encode some values differently, and no table declares them")
	case len(dialects) == 0 && len(r.Messages) > 0:
		v.warn(item(key, 0), nil,
			"no [[route.message]] table: on this route payloads pass unchanged, so types have no effect")
	case len(dialects) == 0 && r.Undeclared == UndeclaredDrop:
		v.warn(child(path, "undeclared"), r.Undeclared, `"pass": on this route payloads pass unchanged, declared or not`)
	}
}
