package enet

import (
	"bytes"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// Bounds of early messages.
const (
	maxAhead      = 2 * maxFlight // numbers of a channel
	maxWaiting    = 256           // unreliable messages of a connection that wait for a reliable one
	maxUnfinished = 4             // unfinished unreliable messages of a channel
	maxHeld       = 256 << 10     // bytes of a connection, without messages that are assembled as the next one
)

// inChannel puts the messages of a channel in order.
type inChannel struct {
	reliable   uint16 `cbor:"1,keyasint"`           // last delivered number
	unreliable uint16 `cbor:"2,keyasint,omitempty"` // last number delivered since then
	lane       lane
	far        uint16         `cbor:"10,keyasint,omitempty"` // an unreliable number that was too far ahead; 0: none
	early      []earlyMessage // a ring by number; nil while no message is early
	rivals     []rival        `cbor:"8,keyasint,omitempty"`
	recent     recent         `cbor:"9,keyasint,omitempty"`
	earlyCount int
	waiting    []unreliableMessage `cbor:"5,keyasint,omitempty"`
	unfinished []*assembly         `cbor:"6,keyasint,omitempty"` // unreliable ones, oldest first
	stillAt    time.Duration       `cbor:"7,keyasint,omitempty"` // when the first one began to wait, or it last moved on
}

// earlyMessage is a reliable message that arrived before its turn, or is unfinished.
type earlyMessage struct {
	payload  []byte
	whole    bool // the whole message is in one command, and may be empty
	assembly *assembly
}

func (s *earlyMessage) isFinished() bool { return s.whole || s.assembly != nil && s.assembly.left == 0 }

// unreliableMessage is an unreliable message that arrived before the reliable one that it follows.
type unreliableMessage struct {
	_                struct{} `cbor:",toarray"`
	Reliable, Number uint16
	Payload          []byte
}

// inbox holds the arriving messages on all channels.
type inbox struct {
	events   *events.Queue
	channels []inChannel
	base     uint16        `cbor:"1,keyasint,omitempty"`
	follows  uint16        // the last unreliable number before the first message of a channel
	largest  int           // bytes of a message
	guesses  bool          // a forger can guess what the peer's datagrams must have
	held     int           // bytes of all other messages that wait or are unfinished
	heldNext int           // bytes of unfinished messages that began as the next one of their channel
	early    int           // reliable messages that arrived before their turn, or are unfinished
	waiting  int           // unreliable messages that wait
	now      time.Duration // of the present input
	full     bool          `cbor:"3,keyasint,omitempty"` // nothing more may wait
	free     [][]byte
	lent     [][]byte // payloads of events
}

// channel returns the state of a channel. It begins with the channel's first message.
func (in *inbox) channel(n uint8) *inChannel {
	for len(in.channels) <= int(n) {
		in.channels = append(in.channels, inChannel{reliable: in.base, unreliable: in.follows})
	}
	return &in.channels[n]
}

// recycle takes back the memory of polled events. It runs at the beginning of each input.
func (in *inbox) recycle() {
	for _, b := range in.lent {
		if len(in.free) < keptMessages && cap(b) <= keptBuffer {
			in.free = append(in.free, b[:0])
		}
	}
	clear(in.lent)
	in.lent = in.lent[:0]
}

func (in *inbox) copyOf(payload []byte) []byte {
	var b []byte
	if n := len(in.free); n > 0 {
		b, in.free = in.free[n-1], in.free[:n-1]
	}
	return append(b, payload...)
}

// fits reports whether more bytes may be held, for other messages than a channel's next one. The next message has room
// of its own, so that early ones cannot keep it out. The oldest unfinished unreliable messages make room: parts of them
// were probably lost.
func (in *inbox) fits(more int) bool {
	for in.held+more > maxHeld && in.forgetOldest() {
	}
	return in.held+more <= maxHeld && !in.full
}

func (in *inbox) deliver(mode codec.Mode, channel uint8, payload []byte) {
	m := codec.Message{Payload: payload, Mode: mode, Channel: channel}
	in.events.Push(codec.Event{Kind: codec.Received, Message: m})
}

// deliverHeld delivers a held payload, and frees it after the next round of Poll.
func (in *inbox) deliverHeld(mode codec.Mode, channel uint8, payload []byte) {
	in.deliver(mode, channel, payload)
	in.lent = append(in.lent, payload)
}

// place returns how far a number is ahead of the last delivered one, 1 for the next. Earlier numbers are ErrDuplicate.
func (c *inChannel) place(seq uint16) (ahead int, err error) {
	ahead = int(int16(seq - c.reliable))
	switch {
	case ahead <= 0:
		return ahead, codec.ErrDuplicate
	case ahead > maxAhead:
		return ahead, codec.ErrWindow
	}
	return ahead, nil
}

// takeReliable takes a reliable message of one command. ErrDuplicate means that the message is old; it must be
// acknowledged again. After other errors it must not be acknowledged.
func (in *inbox) takeReliable(n uint8, seq uint16, payload []byte) error {
	c := in.channel(n)
	ahead, err := c.place(seq)
	if sum := sumOf(payload); ahead <= 0 && in.guesses && c.recent.differs(seq, -ahead, sum) {
		c.recent[seq%mostRecent] = sum
		in.deliver(codec.ReliableOrdered, n, payload)
		return nil
	}
	if err != nil {
		return err
	}
	if ahead == 1 && c.isNextEmpty() {
		in.deliver(codec.ReliableOrdered, n, payload)
		in.note(c, seq, payload, nil)
		in.advance(c, 1)
		in.flushUnreliable(n, c)
		in.release(n, c)
		return nil
	}
	s := in.slot(c, seq)
	switch {
	case s == nil:
		return codec.ErrLimit
	case s.whole && bytes.Equal(s.payload, payload):
		return codec.ErrDuplicate
	case s.whole || s.assembly != nil:
		if err := in.takeRival(c, seq, payload); err != nil {
			return err
		}
		in.release(n, c)
		return nil
	case !in.fits(len(payload)):
		return codec.ErrLimit
	}
	in.begins(c)
	*s = earlyMessage{payload: in.copyOf(payload), whole: true}
	c.earlyCount++
	in.early++
	in.held += len(payload)
	return nil
}

// at returns the place of a number. There are early messages.
func (c *inChannel) at(seq uint16) *earlyMessage { return &c.early[int(seq)&(len(c.early)-1)] }

// isNextEmpty reports whether no part of the next message has arrived yet.
func (c *inChannel) isNextEmpty() bool {
	if c.earlyCount == 0 {
		return true
	}
	s := c.at(c.reliable + 1)
	return !s.whole && s.assembly == nil
}

// advance moves past the numbers of a delivered message. Other messages under these numbers become rivals.
func (in *inbox) advance(c *inChannel, numbers uint16) {
	for i := range uint16(min(int(numbers), len(c.early))) {
		in.outrun(c, c.reliable+1+i)
	}
	if in.guesses {
		c.lane.begin(in.now, c.reliable, c.unreliable)
	}
	c.reliable += numbers
	c.unreliable, c.far = 0, 0
	c.stillAt = in.now
}

// takeUnreliable takes an unreliable message that follows a reliable number. isHeld says that payload is our own
// memory.
func (in *inbox) takeUnreliable(n uint8, m unreliableMessage, isHeld bool) error {
	c := in.channel(n)
	switch ahead := int(int16(m.Reliable - c.reliable)); {
	case ahead < 0 || ahead == 0 && m.Number <= c.unreliable:
		if !c.lane.take(in.now, m.Reliable, m.Number) {
			return codec.ErrDuplicate
		}
		in.deliverUnreliable(n, &m, isHeld)
		return nil
	case ahead > maxAhead, ahead == 0 && in.isFar(c, m.Number), ahead > 0 && in.guesses && m.Number > reach:
		return codec.ErrWindow
	case ahead == 0:
		in.accept(c, m.Number)
		in.forgetUnreliable(c)
		in.deliverUnreliable(n, &m, isHeld)
		return nil
	}
	for i := range c.waiting {
		if w := &c.waiting[i]; w.Reliable == m.Reliable && w.Number == m.Number {
			return codec.ErrDuplicate
		}
	}
	if in.waiting == maxWaiting || !in.fits(len(m.Payload)) {
		return codec.ErrLimit
	}
	if !isHeld {
		m.Payload = in.copyOf(m.Payload)
	}
	in.begins(c)
	in.held += len(m.Payload)
	in.waiting++
	c.waiting = append(c.waiting, m)
	return nil
}

func (in *inbox) deliverUnreliable(n uint8, m *unreliableMessage, isHeld bool) {
	if isHeld {
		in.deliverHeld(codec.UnreliableSequenced, n, m.Payload)
	} else {
		in.deliver(codec.UnreliableSequenced, n, m.Payload)
	}
}

// takeUnreliableFragment takes a fragment of an unreliable message.
func (in *inbox) takeUnreliableFragment(n uint8, reliable uint16, f *fragment, payload []byte) error {
	c := in.channel(n)
	ahead := int(int16(reliable - c.reliable))
	switch {
	case c.isStale(reliable, f.start):
		return codec.ErrDuplicate
	case ahead > maxAhead:
		return codec.ErrWindow
	case f.count > maxFlight || f.total > maxUnreliable:
		return codec.ErrMalformed
	}
	a := c.unreliableAssembly(reliable, f.start)
	if a == nil {
		if len(c.unfinished) == maxUnfinished {
			in.forget(c, 0)
		}
		if !in.fits(held(f.total, f.count)) {
			return codec.ErrLimit
		}
		a = newAssembly(f, reliable)
		in.held += a.size()
		c.unfinished = append(c.unfinished, a)
	}
	if err := a.add(f, payload); err != nil || a.left > 0 {
		if err == nil {
			c.stillAt, a.fedAt = in.now, in.now
		}
		return err
	}
	for i, other := range c.unfinished {
		if other == a {
			in.forget(c, i)
			break
		}
	}
	return in.takeUnreliable(n, unreliableMessage{Reliable: reliable, Number: a.Start, Payload: a.Payload}, true)
}

func (c *inChannel) unreliableAssembly(reliable, start uint16) *assembly {
	for _, a := range c.unfinished {
		if a.Reliable == reliable && a.Start == start {
			return a
		}
	}
	return nil
}

// isStale reports whether an unreliable message would be late.
func (c *inChannel) isStale(reliable, number uint16) bool {
	ahead := int16(reliable - c.reliable)
	return (ahead < 0 || ahead == 0 && number <= c.unreliable) && !c.lane.has(reliable, number)
}

// forget gives up an unfinished unreliable message.
func (in *inbox) forget(c *inChannel, i int) {
	in.held -= c.unfinished[i].size()
	c.unfinished = append(c.unfinished[:i], c.unfinished[i+1:]...)
}

// forgetOldest gives up the oldest unfinished unreliable message of all channels, if there is one.
func (in *inbox) forgetOldest() bool {
	var oldest *inChannel
	for i := range in.channels {
		c := &in.channels[i]
		if len(c.unfinished) > 0 && (oldest == nil || c.unfinished[0].fedAt < oldest.unfinished[0].fedAt) {
			oldest = c
		}
	}
	if oldest != nil {
		in.forget(oldest, 0)
	}
	return oldest != nil
}

// forgetUnreliable gives up the unfinished unreliable messages that would be late.
func (in *inbox) forgetUnreliable(c *inChannel) {
	for i := len(c.unfinished) - 1; i >= 0; i-- {
		a := c.unfinished[i]
		if c.isStale(a.Reliable, a.Start) {
			in.forget(c, i)
		}
	}
}

// flushUnreliable delivers the unreliable messages that follow the last delivered one, in their order, and gives up
// older ones.
func (in *inbox) flushUnreliable(n uint8, c *inChannel) {
	in.forgetUnreliable(c)
	for {
		next := -1
		for i := len(c.waiting) - 1; i >= 0; i-- {
			w := &c.waiting[i]
			switch ahead := int16(w.Reliable - c.reliable); {
			case ahead < 0 || ahead == 0 && w.Number <= c.unreliable:
				in.takeWaiting(c, i)
				if next == len(c.waiting) {
					next = i // the last one has moved here
				}
			case ahead == 0 && (next < 0 || w.Number < c.waiting[next].Number):
				next = i
			}
		}
		if next < 0 {
			return
		}
		in.accept(c, c.waiting[next].Number)
		in.deliverHeld(codec.UnreliableSequenced, n, in.takeWaiting(c, next))
	}
}

// takeWaiting removes a waiting message. The last one takes its place.
func (in *inbox) takeWaiting(c *inChannel, i int) (payload []byte) {
	payload = c.waiting[i].Payload
	in.held -= len(payload)
	in.waiting--
	last := len(c.waiting) - 1
	c.waiting[i], c.waiting[last] = c.waiting[last], unreliableMessage{}
	c.waiting = c.waiting[:last]
	return payload
}

// Bounds of unreliable numbers that were not confirmed yet.
const (
	reach      = 256         // how far a number may be ahead of the last one without another one behind it
	laneLength = 32          // messages on an earlier lane until it counts again
	laneTime   = time.Second // the same as a time: no datagram is late for so long
)

// lane is the place of the last unreliable message before a jump of the channel's numbers. The jump may be forged, and
// the peer goes on here. The jump counts at once, so messages of the lane are late. They are delivered when there are
// too many of them, or when they come too late, for a path that changes their order.
type lane struct {
	_                struct{} `cbor:",toarray"`
	isOpen           bool     `cbor:"-"`
	reliable, number uint16
	since            time.Duration
	behind           int
}

// begin opens the lane before a jump, unless one of an earlier jump is open.
func (l *lane) begin(now time.Duration, reliable, number uint16) {
	if !l.isOpen {
		*l = lane{isOpen: true, reliable: reliable, number: number, since: now}
	}
}

// has reports whether a message may go on with the lane.
func (l *lane) has(reliable, number uint16) bool {
	return l.isOpen && reliable == l.reliable && number > l.number && number-l.number <= reach
}

// take records a message, and reports whether it is to be delivered.
func (l *lane) take(now time.Duration, reliable, number uint16) bool {
	if !l.has(reliable, number) {
		return false
	}
	l.number = number
	l.behind++
	return l.behind >= laneLength || now-l.since >= laneTime
}

// accept moves a channel to an unreliable number behind the last reliable one.
func (in *inbox) accept(c *inChannel, number uint16) {
	gap := number - c.unreliable
	switch l := &c.lane; {
	case !in.guesses:
	case l.has(c.reliable, number) || gap <= laneLength: // the peer has passed the jump, or was behind it
		l.isOpen = false
	}
	if in.guesses && gap > 1 {
		c.lane.isOpen = c.lane.isOpen && c.lane.reliable == c.reliable
		c.lane.begin(in.now, c.reliable, c.unreliable)
	}
	c.unreliable = number
}

// isFar reports whether a number is too far ahead to count. It counts when another one follows it.
func (in *inbox) isFar(c *inChannel, number uint16) bool {
	if !in.guesses || number-c.unreliable <= reach {
		return false
	}
	isNext := number > c.far && number-c.far <= reach && c.far > c.unreliable
	c.far = number
	return !isNext
}
