package relay

import (
	"bytes"
	"fmt"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
)

// mark is the text at the start of each simulated message: its direction, its player, its promise and its number. A
// message is never longer in marks than one, so that joined messages can be taken apart.
const markFormat = "%c%03d%c%07d"

// mark is a mark as data.
type mark struct {
	up       bool
	owner    int
	reliable bool
	number   int
}

func (m mark) append(b []byte) []byte {
	way, kind := 'D', 'u'
	if m.up {
		way = 'U'
	}
	if m.reliable {
		kind = 'r'
	}
	return fmt.Appendf(b, markFormat, way, m.owner, kind, m.number)
}

func (m *mark) parse(b []byte) error {
	var way, kind rune
	if _, err := fmt.Sscanf(string(b), markFormat, &way, &m.owner, &kind, &m.number); err != nil {
		return err
	}
	m.up, m.reliable = way == 'U', kind == 'r'
	if got := m.append(nil); m.owner < 0 || m.number < 0 || !bytes.Equal(got, b) {
		return fmt.Errorf("%q is no mark", b)
	}
	return nil
}

// filler is a byte behind a mark. Those of two players differ.
func (m mark) filler(i int) byte { return byte(m.owner*61 + m.number + i) }

// fill returns the number of bytes behind a mark.
func (d *dialogue) fill(m mark) int {
	switch {
	case d.cut && m.reliable && m.number%8 == 7:
		return m.number * 1031 % 9000
	case d.bulky && m.number%5 == 0:
		return m.number * 131 % 900
	}
	return 0
}

// voice is one direction of a session.
type voice struct {
	sent    int
	promise []int // the numbers of reliable messages
	arrived map[int]int
	latest  int // the highest number of a reliable message that has arrived
	altered int // messages that no game has written, in cut sizes
}

// alter notes a message that no game has written. A forged part of a message may have replaced the peer's, if it came
// first.
func (v *voice) alter(payload []byte) {
	if len(payload) > leastCut {
		v.altered++
	}
}

// leastCut is less than the parts of a cut message have.
const leastCut = 400

// hear notes a message that has arrived.
func (v *voice) hear(m mark, ordered bool) error {
	v.arrived[m.number]++
	if m.reliable && ordered && m.number < v.latest {
		return fmt.Errorf("message %d came behind message %d", m.number, v.latest)
	}
	if m.reliable {
		v.latest = max(v.latest, m.number)
	}
	return nil
}

// dialogue is the form of messages between two protocols.
type dialogue struct {
	clients, servers codec.Protocol
	route            *Route
	bulky            bool // messages have bytes behind their marks
	cut              bool // and some are so large that both protocols cut them
	ordered          bool // reliable messages arrive in order
}

func newDialogue(clients, servers codec.Protocol, route *Route) *dialogue {
	odd := clients.Spec().Joins || servers.Spec().Joins || clients.Spec().Closed || servers.Spec().Closed
	ordered := clients.Spec().Modes.Has(codec.ReliableOrdered) && servers.Spec().Modes.Has(codec.ReliableOrdered)
	cut := !odd && clients.Spec().Channels > 0 && servers.Spec().Channels > 0 // RakNet and ENet
	return &dialogue{clients, servers, route, !odd, cut, ordered}
}

// ends returns the protocol of the speaking end, and that of the other one.
func (d *dialogue) ends(up bool) (near, far codec.Protocol) {
	if up {
		return d.clients, d.servers
	}
	return d.servers, d.clients
}

// closed reports whether only R-Type's instructions pass.
func (d *dialogue) closed() bool { return d.clients.Spec().Closed || d.servers.Spec().Closed }

// write returns a message as the game writes it.
func (d *dialogue) write(m mark) codec.Message {
	near, _ := d.ends(m.up)
	out := codec.Message{Mode: codec.Unreliable, ID: uint16(m.number)}
	if m.reliable {
		for _, mode := range []codec.Mode{codec.ReliableOrdered, codec.Reliable, codec.UnreliableSequenced} {
			if near.Spec().Modes.Has(mode) {
				out.Mode = mode
				break
			}
		}
	}
	if d.closed() {
		out.Payload = bytes.Clone(instruction)
	}
	out.Payload = m.append(out.Payload)
	for i := range d.fill(m) {
		out.Payload = append(out.Payload, m.filler(i))
	}
	return d.wrap(m.up, out)
}

// wrap returns a message in the form that the bridge expects from one end.
func (d *dialogue) wrap(up bool, m codec.Message) codec.Message {
	near, far := d.ends(up)
	if len(d.route.Bridge.Map) > 0 {
		return begin(d.form(up), m)
	}
	return bridge.WrappingOf(near.Spec(), far.Spec(), &d.route.Bridge).Wrap(nil, m)
}

// read takes the marks out of a received message. It returns an error for bytes that no game wrote.
func (d *dialogue) read(up bool, m codec.Message, take func(mark) error) error {
	far, near := d.ends(up)
	if len(d.route.Bridge.Map) > 0 {
		return d.readMapped(up, m, take)
	}
	var fault error
	err := bridge.WrappingOf(near.Spec(), far.Spec(), &d.route.Bridge).Unwrap(m, func(one codec.Message) {
		if err := d.readOne(one.Payload, take); err != nil {
			fault = fmt.Errorf("received %q: %w", one.Payload, err)
		}
	})
	if err != nil {
		return fmt.Errorf("received %x: %w", m.Payload, err)
	}
	return fault
}

// form returns the beginning of the messages of the end that speaks up or down, on a route with a map.
func (d *dialogue) form(up bool) policy.Form {
	return formOn(d.route, d.clients.Spec().IDs == codec.IDBeside, up)
}

// readMapped is read for a message that came by a map. Its ID is the number of its mark.
func (d *dialogue) readMapped(up bool, m codec.Message, take func(mark) error) error {
	id, payload, ok := unbegin(d.form(!up), m)
	if !ok {
		return fmt.Errorf("received %x, ID %d, which the map does not have", m.Payload, m.ID)
	}
	return d.readOne(payload, func(m mark) error {
		if uint16(m.number) != id {
			return fmt.Errorf("message %d came with ID %d", m.number, id)
		}
		return take(m)
	})
}

func (d *dialogue) readOne(rest []byte, take func(mark) error) error {
	if d.closed() {
		var found bool
		if rest, found = bytes.CutPrefix(rest, instruction); !found {
			return nil // R-Type's own: the announcement of its components
		}
	}
	for len(rest) >= bodySize {
		var m mark
		if err := m.parse(rest[:bodySize]); err != nil {
			return err
		}
		rest = rest[bodySize:]
		n := d.fill(m)
		if len(rest) < n {
			return fmt.Errorf("%d of %d bytes", len(rest), n)
		}
		for i, b := range rest[:n] {
			if b != m.filler(i) {
				return fmt.Errorf("byte %d is altered", i)
			}
		}
		rest = rest[n:]
		if err := take(m); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(rest))
	}
	return nil
}
