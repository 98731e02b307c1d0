package enet

import (
	"bytes"
	"slices"
	"time"

	"tidegate/codec"
)

// nextRoom is the memory in bytes of messages in parts that begin as the next one of their channel: two of the largest.
// So a forged part leaves room for the peer's message.
func (in *inbox) nextRoom() int { return 2 * held(uint32(in.largest), maxParts) }

// hasRoom reports whether a message in parts may begin.
func (in *inbox) hasRoom(size int, isNext bool) bool {
	if isNext {
		return !in.full && in.heldNext+size <= in.nextRoom()
	}
	return in.fits(size)
}

// count counts the memory of a message in parts.
func (in *inbox) count(a *assembly) {
	if a.IsNext {
		in.heldNext += a.size()
	} else {
		in.held += a.size()
	}
}

// uncount stops counting it.
func (in *inbox) uncount(a *assembly) {
	if a.IsNext {
		in.heldNext -= a.size()
	} else {
		in.held -= a.size()
	}
}

// takeFragment takes a fragment of a reliable message.
func (in *inbox) takeFragment(n uint8, f *fragment, payload []byte) error {
	c := in.channel(n)
	ahead, err := c.place(f.start)
	var primary *assembly
	switch {
	case ahead <= 0 && in.isLate(c, f, payload):
	case err != nil:
		return err
	default:
		s := in.slot(c, f.start)
		if s == nil || !s.whole && s.assembly == nil && !in.begin(c, s, f, ahead == 1) {
			return codec.ErrLimit
		}
		primary = s.assembly
	}
	if err := in.addPart(c, primary, f, payload, ahead <= 1); err != nil {
		return err
	}
	if ahead > 0 {
		c.stillAt = in.now
	}
	if ahead <= 1 {
		in.release(n, c)
	}
	return nil
}

// begin starts to assemble a reliable message, if there is room.
func (in *inbox) begin(c *inChannel, s *earlyMessage, f *fragment, isNext bool) bool {
	if !in.hasRoom(held(f.total, f.count), isNext) {
		return false
	}
	s.assembly = newAssembly(f, 0)
	s.assembly.IsNext = isNext
	in.count(s.assembly)
	c.earlyCount++
	in.early++
	return true
}

// addPart adds a part to all assemblies that it fits: the primary one, which may be nil, and rivals. A part with other
// content than the one in its place, or of another shape, begins a rival.
func (in *inbox) addPart(c *inChannel, primary *assembly, f *fragment, payload []byte, isNext bool) error {
	var other *assembly // has another part in this one's place
	added, known := false, false
	for i := -1; i < len(c.rivals); i++ {
		a := primary
		if i >= 0 {
			a = c.rivals[i].under(f.start)
		}
		switch {
		case a == nil || !a.fits(f):
		case !a.hasPart(f.index):
			a.put(f, payload)
			a.fedAt = in.now
			added = true
		case !in.guesses || bytes.Equal(a.part(f.index), payload):
			known = true
		default:
			other = a
		}
	}
	switch {
	case added:
		return nil
	case known:
		return codec.ErrDuplicate
	case !in.guesses:
		return codec.ErrMalformed
	case len(c.rivals) == maxRivals || !in.hasRoom(held(f.total, f.count), isNext):
		return codec.ErrLimit
	}
	a := newAssembly(f, 0)
	if other != nil {
		*a = *other
		a.Payload, a.Has = bytes.Clone(other.Payload), slices.Clone(other.Has)
	}
	a.IsNext, a.fedAt = isNext, in.now
	a.put(f, payload)
	in.count(a)
	c.rivals = append(c.rivals, rival{number: f.start, assembly: a})
	return nil
}

// isLate reports whether a fragment under a delivered number belongs to a message that has not been delivered. A forged
// message took the number. The peer's message shows it: its numbers go on beyond the delivered ones, or its content is
// another.
func (in *inbox) isLate(c *inChannel, f *fragment, payload []byte) bool {
	if !in.guesses {
		return false
	}
	for i := range c.rivals {
		if a := c.rivals[i].under(f.start); a != nil && a.fits(f) {
			return true
		}
	}
	end, own := f.start+uint16(f.count-1), f.start+uint16(f.index)
	return int16(end-c.reliable) > 0 || c.recent.differs(own, int(c.reliable-own), partSum(f, payload))
}

// release delivers the messages that are next now, and late ones.
func (in *inbox) release(n uint8, c *inChannel) {
	defer in.shrink(c)
	for {
		m, ok := in.takeFinished(c)
		if !ok {
			return
		}
		payload, numbers := m.payload, uint16(1)
		if a := m.assembly; a != nil {
			payload, numbers = a.Payload, uint16(a.Count)
			in.uncount(a)
		} else {
			in.held -= len(payload)
		}
		in.deliverHeld(codec.ReliableOrdered, n, payload)
		in.note(c, m.number, payload, m.assembly)
		if ahead := int16(m.number + numbers - 1 - c.reliable); ahead > 0 {
			in.advance(c, uint16(ahead))
		}
		in.flushUnreliable(n, c)
	}
}

// takeFinished removes a finished message whose turn has come: a rival, or else the next message.
func (in *inbox) takeFinished(c *inChannel) (m rival, ok bool) {
	for i, r := range c.rivals {
		if r.isFinished() && int16(r.number-c.reliable) <= 1 {
			c.rivals = append(c.rivals[:i], c.rivals[i+1:]...)
			return r, true
		}
	}
	if c.earlyCount == 0 {
		return rival{}, false
	}
	s := c.at(c.reliable + 1)
	if !s.isFinished() {
		return rival{}, false
	}
	return in.empty(c, s, c.reliable+1), true
}

// empty takes an early message from its place.
func (in *inbox) empty(c *inChannel, s *earlyMessage, number uint16) rival {
	m := rival{number: number, payload: s.payload, assembly: s.assembly}
	*s = earlyMessage{}
	c.earlyCount--
	in.early--
	return m
}

// outrun makes a rival of an early message whose number counts as delivered.
func (in *inbox) outrun(c *inChannel, number uint16) {
	s := c.at(number)
	if !s.whole && s.assembly == nil {
		return
	}
	m := in.empty(c, s, number)
	if in.guesses && len(c.rivals) < maxRivals {
		c.rivals = append(c.rivals, m)
		return
	}
	in.discard(&m)
}

// discard stops counting the memory of a message.
func (in *inbox) discard(m *rival) {
	if m.assembly != nil {
		in.uncount(m.assembly)
	} else {
		in.held -= len(m.payload)
	}
}

// assembly is a message with missing fragments. It takes the memory of the whole message.
type assembly struct {
	Payload []byte   `cbor:"1,keyasint"`
	Has     []uint64 `cbor:"2,keyasint"` // one bit for each fragment that has arrived
	Count   uint32   `cbor:"3,keyasint"`
	// Reliable and Start identify an unreliable message: the channel's reliable number and its own.
	Reliable uint16 `cbor:"4,keyasint,omitempty"`
	Start    uint16 `cbor:"5,keyasint,omitempty"`
	IsNext   bool   `cbor:"6,keyasint,omitempty"` // it began when it was the next message
	Unit     uint32 `cbor:"7,keyasint,omitempty"` // bytes of each fragment but the last; 0: not known
	left     uint32
	fedAt    time.Duration `cbor:"8,keyasint,omitempty"` // when the latest fragment arrived
}

func newAssembly(f *fragment, reliable uint16) *assembly {
	return &assembly{
		Payload: make([]byte, f.total), Has: make([]uint64, (f.count+63)/64),
		Count: f.count, left: f.count, Unit: f.unit, Reliable: reliable, Start: f.start,
	}
}

// assemblyOverhead is the memory of an assembly in bytes, without its payload and bits.
const assemblyOverhead = 96

// held returns the memory in bytes of an assembly with the given size and number of fragments.
func held(total, count uint32) int { return int(total) + int(count+63)/64*8 + assemblyOverhead }

func (a *assembly) size() int { return held(uint32(len(a.Payload)), a.Count) }

// fits reports whether a fragment may be part of the message.
func (a *assembly) fits(f *fragment) bool {
	return f.count == a.Count && int(f.total) == len(a.Payload) && (f.unit == a.Unit || a.Unit == 0)
}

func (a *assembly) hasPart(index uint32) bool { return a.Has[index/64]>>(index%64)&1 != 0 }

// part returns a fragment of a message with a known unit.
func (a *assembly) part(index uint32) []byte {
	return a.Payload[index*a.Unit : min((index+1)*a.Unit, uint32(len(a.Payload)))]
}

// put stores a fragment that fits, also in the place of another one.
func (a *assembly) put(f *fragment, payload []byte) {
	if !a.hasPart(f.index) {
		a.left--
	}
	a.Has[f.index/64] |= 1 << (f.index % 64)
	copy(a.Payload[f.offset:], payload)
}

// add stores a fragment of an unreliable message.
func (a *assembly) add(f *fragment, payload []byte) error {
	switch {
	case !a.fits(f):
		return codec.ErrMalformed
	case a.hasPart(f.index):
		return codec.ErrDuplicate
	}
	a.put(f, payload)
	return nil
}

// A peer repeats the parts of its due message until it is acknowledged, and ends the session 5 s later or more. One
// that shows so many parts of a due message beyond Options.MaxMessage, for so long and in so short a time, waits for
// that message. The first number of an unused channel is due all the time, and any peer may forge it without checksums:
// docs/security/forgers.md says how fast.
const (
	giantSightings = 32
	giantPatience  = time.Second // beside two round trips
	giantWithin    = defaultTimeoutMinimum
)

// giant is a message that is too large, and due on its channel.
type giant struct {
	channel   uint8
	start     uint16
	total     uint32
	sightings int
	since     time.Time
}

// refuseGiant refuses a part of a message that is too large. It ends the session if the peer waits for that message.
func (c *Conn) refuseGiant(now time.Time, channel uint8, f *fragment) error {
	if ahead, _ := c.in.channel(channel).place(f.start); ahead != 1 {
		return codec.ErrLimit
	}
	g := &c.giant
	if g.channel != channel || g.start != f.start || g.total != f.total || now.Sub(g.since) > giantWithin+2*c.rtt.Mean {
		*g = giant{channel: channel, start: f.start, total: f.total, since: now}
	}
	g.sightings++
	if c.state == connected && g.sightings >= giantSightings && now.Sub(g.since) >= giantPatience+2*c.rtt.Mean {
		c.refusal = c.appendDisconnectNow(nil)
		c.end(codec.Overflow, 0)
	}
	return codec.ErrLimit
}
