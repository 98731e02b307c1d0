package rtype

import (
	"bytes"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/internal/words"
)

// Explain explains the datagrams of one session, from its first one on. It is not safe for concurrent use.
func (p *Protocol) Explain(m *explain.Memory) explain.Conversation {
	return describerOf(p.options.Dialect, m).describe
}

// describer learns the dialect and the names of the components as the session's peers do. The zero value is for a
// session whose dialect is unknown.
type describer struct {
	dialect Dialect
	format  format
	gather  gather
	initial initialisation
	memory  *explain.Memory
}

func describerOf(dialect Dialect, m *explain.Memory) *describer {
	return &describer{dialect: dialect, format: formats[dialect], memory: m}
}

// describe explains a datagram as a whole, and each of its instructions if there are several. Errors wrap
// codec.ErrMalformed. They wrap codec.ErrUnexpected for an update that arrives before the width of entities is known.
func (d *describer) describe(fromServer bool, b []byte) (text string, instructions []string, err error) {
	switch {
	case len(b) == 0:
		return "", nil, codec.ErrMalformed
	case fromServer:
		instructions, err = d.server(b)
	default:
		instructions, err = d.client(b)
	}
	if !d.memory.Hold(d.gather.held + len(d.initial.Names)*(nameCost+maxName)) {
		d.gather, d.initial = gather{}, initialisation{}
	}
	switch {
	case len(instructions) == 0:
		return "", nil, err
	case len(instructions) == 1 && err == nil:
		return instructions[0], nil, nil
	}
	return words.Count(len(instructions), "instruction"), instructions, err
}

// client explains a client's datagram.
func (d *describer) client(b []byte) ([]string, error) {
	switch {
	case bytes.Equal(b, defaultHello):
		d.gather, d.initial = gather{}, initialisation{} // the server will name its components again
		if d.format.document {
			d.format = format{}
		}
		return []string{"start: a client wants to play"}, nil
	case bytes.Equal(b, pong):
		return []string{"pong"}, nil
	}
	if text, ok := d.lobbyOf(b); ok {
		return []string{text}, nil
	}
	return d.input(b)
}

// server explains a server's datagram. Parts of the initialisation precede other datagrams, but some servers repeat
// them at any time.
func (d *describer) server(b []byte) ([]string, error) {
	switch {
	case bytes.Equal(b, ping):
		return []string{"ping"}, nil
	case isGoodbye(b):
		return []string{"goodbye"}, nil
	case d.format.isFinal() && b[0] == countOpcode:
		return d.count(b)
	case d.format.isFinal() && len(b) > 3 && b[0] == nameOpcode && isName(b[3:]) && !isLastName(b):
		return []string{d.named(b)}, nil // of a proxy that asks for a proof
	case d.initial.known():
		if d.format.isFinal() && isLastName(b) {
			return []string{d.named(b)}, nil
		}
		texts, err := d.instructions(b)
		if err != nil && len(texts) == 0 {
			if part, ok := d.part(b); ok {
				return []string{part}, nil
			}
		}
		return texts, err
	}
	if d.format.document || d.dialect == Auto {
		if text, rest, ok := d.names(b); ok {
			more, err := d.instructions(rest)
			return append([]string{text}, more...), err
		}
	}
	if part, ok := d.part(b); ok && !d.format.document {
		return []string{part}, nil
	}
	return d.instructions(b)
}
