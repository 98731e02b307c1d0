package rtype

import (
	"bytes"
	"fmt"

	"tidegate/internal/words"
)

// names explains the document's initialisation, which shows that the server speaks that dialect.
func (d *Describer) names(b []byte) (told string, rest []byte, ok bool) {
	var n initialisation
	rest, err := n.parse(b)
	if err != nil {
		return "", nil, false
	}
	d.initial, d.format = n, formats[Document]
	return fmt.Sprintf("initialisation, %s: %s", words.Count(len(n.names), "component"), bytes.Join(n.names, []byte(", "))), rest, true
}

// part explains a part of the game's initialisation that has not come yet.
func (d *Describer) part(b []byte) (told string, ok bool) {
	before := d.gather
	if !d.gather.take(b) {
		return "", false
	}
	g := d.gather
	switch {
	case g.counted != before.counted:
		told = "initialisation: " + words.Count(g.count, "component")
	case g.pad != before.pad:
		told = fmt.Sprintf("initialisation: names are at most %s long", words.Count(g.pad, "byte"))
	default:
		told = fmt.Sprintf("initialisation: component %d is %s", b[0], g.names[b[0]])
	}
	if n, done := d.gather.done(); done {
		d.format.learn(format{era: g.era})
		d.initial, d.gather = n, gather{}
	}
	return told, true
}

// component names a component, if its name is known.
func (d *Describer) component(id uint16) string {
	if int(id) < len(d.initial.names) {
		return fmt.Sprintf("%d (%s)", id, d.initial.names[id])
	}
	return fmt.Sprint(id)
}
