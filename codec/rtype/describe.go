package rtype

import (
	"bytes"
	"cmp"
	"fmt"

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

// names explains the document's initialisation, which shows that the server speaks that dialect.
func (d *describer) names(b []byte) (text string, rest []byte, ok bool) {
	var n initialisation
	rest, err := n.parse(b)
	if err != nil {
		return "", nil, false
	}
	d.initial, d.format = n, formats[Document]
	text = fmt.Sprintf("initialisation, %s: %s",
		words.Count(len(n.Names), "component"), bytes.Join(n.Names, []byte(", ")))
	return text, rest, true
}

// part explains a new part of the game's initialisation.
func (d *describer) part(b []byte) (text string, ok bool) {
	if d.format.isFinal() {
		d.gather.Era = Final
	}
	before := d.gather
	if !d.gather.take(b) {
		return "", false
	}
	g := d.gather
	switch {
	case isLastName(b):
		d.format = formats[GameLast]
		text = d.named(b)
	case isFiller(b):
		text = "initialisation: filler in place of a lost part"
	case g.Counted != before.Counted:
		text = "initialisation: " + words.Count(g.Count, "component")
	case g.Pad != before.Pad:
		text = fmt.Sprintf("initialisation: names are at most %s long", words.Count(g.Pad, "byte"))
	default:
		text = fmt.Sprintf("initialisation: component %d is %s", b[0], g.Names[b[0]])
	}
	d.complete()
	return text, true
}

// complete stores the initialisation once it is complete.
func (d *describer) complete() {
	if n, done := d.gather.done(); done {
		d.format.learn(format{era: d.gather.Era})
		d.initial, d.gather = n, gather{}
	}
}

func (d *describer) named(b []byte) string {
	return fmt.Sprintf("lobby: component %d is %s", le.Uint16(b[1:]), b[3:])
}

// count explains the number of components that a client of the last game uses.
func (d *describer) count(b []byte) ([]string, error) {
	if len(b) != 3 {
		return nil, errLength
	}
	n := int(be.Uint16(b[1:]))
	if d.gather.Era = Final; !d.initial.known() && d.gather.take(b) {
		d.complete()
	}
	return []string{"lobby: the client uses " + words.Count(n, "component")}, nil
}

// lobbyOf explains a message that only clients of the last game send. Before the server's answer its hello may be a
// key.
func (d *describer) lobbyOf(b []byte) (text string, ok bool) {
	fresh := d.format == format{} && !d.initial.known() && !d.gather.begun()
	switch {
	case len(b) == 1 && b[0] == openLobby && d.format.isFinal():
		return "lobby: a client wants to play", true
	case len(b) == 1 && b[0] == openLobby && fresh:
		return "key pressed: right, or a client of the last game wants to play", true
	case !d.format.isFinal():
		return "", false
	case len(b) == 1 && b[0] == startOpcode:
		return "lobby: the client starts", true
	case len(b) == ignoreLen && b[0] == ignoreOpcode:
		return "lobby: the client ignores component " + d.component(le.Uint16(b[1:])), true
	}
	return "", false
}

// component returns a component's number, and its name if that is known.
func (d *describer) component(id uint16) string {
	if int(id) < len(d.initial.Names) {
		return fmt.Sprintf("%d (%s)", id, d.initial.Names[id])
	}
	return fmt.Sprint(id)
}

// errUnusualComponent reports a component that the server, as far as the describer has heard, has not announced. The
// server itself may have announced it to a peer that was heard differently.
var errUnusualComponent = fmt.Errorf("%w: %w", explain.ErrUnusual, errComponent)

// instructions explains the changes of the world in a datagram, up to the first malformed one.
func (d *describer) instructions(b []byte) (texts []string, err error) {
	f := d.format
	if f.width == 0 {
		f.width = widthOf(b)
	}
	if f.width == 0 && opcode(b[0]) == update {
		return nil, errWidth
	}
	for len(b) > 0 {
		var in instruction
		rest, fault := in.parse(b, &f, nil) // the sizes are configured and not on the wire
		if fault == nil && len(rest) > 0 && !f.document {
			fault = errLength
		}
		if fault != nil {
			return texts, fault
		}
		if in.op >= attach && in.op <= detach && d.initial.known() && int(in.component) >= len(d.initial.Names) {
			err = errUnusualComponent
		}
		texts = append(texts, d.instruction(&in))
		b = rest
	}
	d.format = f
	return texts, err
}

func (d *describer) instruction(in *instruction) string {
	switch in.op {
	case create:
		return fmt.Sprintf("create entity %d", in.entity)
	case remove:
		return fmt.Sprintf("delete entity %d", in.entity)
	case attach:
		return fmt.Sprintf("attach component %s to entity %d", d.component(in.component), in.entity)
	case update:
		return fmt.Sprintf("update component %s of entity %d, %s: %.16x",
			d.component(in.component), in.entity, words.Count(len(in.data), "byte"), in.data)
	case detach:
		return fmt.Sprintf("detach component %s from entity %d", d.component(in.component), in.entity)
	}
	return "next frame"
}

var keyNames = [maxKey/2 + 1]string{"right", "up", "left", "down", "left click", "right click"}

// errUnusualKeys reports keys where clients send none, or only one in a datagram, as far as the describer has heard.
var errUnusualKeys = fmt.Errorf("%w: %w", explain.ErrUnusual, errOpcode)

// input explains a client's input: one key, several keys in the document's dialect, or an update. The dialect of an
// automatic server may be known only to the server, so keys are explained in every dialect.
func (d *describer) input(b []byte) (texts []string, err error) {
	f := d.format
	if len(b) > 1 && opcode(b[0]) == update && !f.document {
		if texts, err = d.instructions(b); len(texts) > 0 {
			return texts, err
		}
	}
	keys, rest := describeKeys(b)
	switch {
	case len(rest) > 0 && !f.document:
		return texts, cmp.Or(err, errOpcode)
	case len(rest) > 0:
		return keys, errOpcode
	case !f.hasKeys() || len(b) > 1 && !f.document && f != format{}:
		return keys, errUnusualKeys
	}
	return keys, nil
}

// describeKeys explains the keys at the start of b, and returns what follows them.
func describeKeys(b []byte) (texts []string, rest []byte) {
	for ; len(b) > 0 && b[0] <= maxKey; b = b[1:] {
		done := [...]string{"pressed", "released"}[b[0]%2]
		texts = append(texts, "key "+done+": "+keyNames[b[0]/2])
	}
	return texts, b
}
