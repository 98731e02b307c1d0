package rtype

import (
	"bytes"
	"fmt"

	"tidegate/internal/words"
)

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
