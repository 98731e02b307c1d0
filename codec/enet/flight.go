package enet

import (
	"time"

	"tidegate/codec"
)

// maxFlight is the number of a channel's numbers that may be unacknowledged. A message in parts that are more waits
// until its channel is idle. The library's receivers take at least 6 times 4,096.
const (
	maxFlight = 4096
	maxParts  = 6 * 4096
)

// sentCommand is a reliable command that was sent and is not acknowledged yet.
type sentCommand struct {
	_          struct{}     `cbor:",toarray"`
	prev, next *sentCommand `cbor:"-"`
	list       *commandList `cbor:"-"`
	kind       kind
	channel    uint8
	seq        uint16
	place      uint32   // in a record: one more than the message's place; 0: none
	message    *message `cbor:"-"` // nil for control commands
	index      uint32   // index of the fragment
	data       uint32   // of a Disconnect
	size       int      `cbor:"-"` // bytes of payload

	begun, sentAt  time.Time // first and last transmission
	clock          uint16    // our clock at the last transmission
	first, timeout time.Duration
	expired        int // number of time-outs
}

// commandList is a list of commands, in the order in which they were added.
type commandList struct {
	head, tail *sentCommand
	count      int
}

func (l *commandList) push(c *sentCommand) {
	c.list, c.prev, c.next = l, l.tail, nil
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
	l.count++
}

func (c *sentCommand) remove() {
	l := c.list
	if c.prev == nil {
		l.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.list, c.prev, c.next = nil, nil, nil
	l.count--
}

// outChannel numbers the messages of a channel. It finds the command for an acknowledgement.
type outChannel struct {
	_          struct{}       `cbor:",toarray"`
	Reliable   uint16         // last assigned number
	Unreliable uint16         // last number assigned since then
	Oldest     uint16         // first unacknowledged number
	Sent       uint16         // last sent number; a message's numbers are assigned together
	ring       []*sentCommand `cbor:"-"`
}

// reset starts with the number after n.
func (c *outChannel) reset(n uint16) { c.Reliable, c.Sent, c.Oldest = n, n, n+1 }

// hasRoom reports whether n more numbers may be in flight.
func (c *outChannel) hasRoom(n int) bool {
	used := int(c.Reliable - c.Oldest + 1)
	return used+n <= maxFlight || used == 0 && n <= maxParts
}

// number assigns n numbers and returns the first.
func (c *outChannel) number(n int) (first uint16) {
	first = c.Reliable + 1
	c.Reliable += uint16(n)
	c.Unreliable = 0
	return first
}

// enter remembers a command at its first transmission, in the order of numbers.
func (c *outChannel) enter(s *sentCommand) {
	c.Sent = s.seq
	need := int(s.seq-c.Oldest) + 1
	if need > len(c.ring) {
		grown := make([]*sentCommand, max(8, len(c.ring)))
		for len(grown) < need {
			grown = make([]*sentCommand, 2*len(grown))
		}
		for _, old := range c.ring {
			if old != nil {
				grown[int(old.seq)&(len(grown)-1)] = old
			}
		}
		c.ring = grown
	}
	c.ring[int(s.seq)&(len(c.ring)-1)] = s
}

// find returns the command of a number that is in flight; nil if there is none.
func (c *outChannel) find(seq uint16) *sentCommand {
	if len(c.ring) == 0 {
		return nil
	}
	s := c.ring[int(seq)&(len(c.ring)-1)]
	if s == nil || s.seq != seq {
		return nil
	}
	return s
}

// leave removes an acknowledged command.
func (c *outChannel) leave(s *sentCommand) {
	c.ring[int(s.seq)&(len(c.ring)-1)] = nil
	for c.Oldest != c.Sent+1 && c.ring[int(c.Oldest)&(len(c.ring)-1)] == nil {
		c.Oldest++
	}
}

// flight holds all unacknowledged reliable commands. Some wait for their acknowledgement. The others have timed out
// and wait for their next transmission.
type flight struct {
	waiting, resend commandList
	bytes           int // bytes of payloads
	messages        int // commands that carry a message or a part of one
	free            []*sentCommand
	nextAt          time.Time // no later than the first timeout in waiting; zero if that is empty
}

func (f *flight) count() int { return f.waiting.count + f.resend.count }

// command returns a command to fill in.
func (f *flight) command() *sentCommand {
	if n := len(f.free); n > 0 {
		s := f.free[n-1]
		f.free = f.free[:n-1]
		*s = sentCommand{}
		return s
	}
	return new(sentCommand)
}

// sent records that a command was written.
func (f *flight) sent(now time.Time, clock uint16, s *sentCommand, timeout time.Duration) {
	if s.list != nil {
		s.remove()
	}
	if s.first == 0 {
		s.begun, s.first, s.timeout = now, timeout, timeout
		f.bytes += s.size
		if s.message != nil {
			f.messages++
		}
	}
	s.sentAt, s.clock = now, clock
	f.waiting.push(s)
	if at := now.Add(s.timeout); f.nextAt.IsZero() || at.Before(f.nextAt) {
		f.nextAt = at
	}
}

// acknowledged removes a command.
func (f *flight) acknowledged(s *sentCommand) {
	s.remove()
	f.bytes -= s.size
	if s.message != nil {
		f.messages--
	}
	if f.count() == 0 {
		f.nextAt = time.Time{}
	}
	if len(f.free) < keptMessages {
		f.free = append(f.free, s)
	}
}

// mostExpiries is the number of repetitions of a command before its peer can count as gone. So a pause of our own
// process is no silence. docs/protocols/enet.md#round-trips
const (
	mostExpiries = 8
	longTimeout  = time.Second // a timeout beyond this does not double
)

// expire moves timed-out commands to the resend list, and returns their number. gone reports whether the peer counts
// as gone: it has been silent for too long, or has acknowledged no command for as long as p.most.
func (f *flight) expire(now, heard, answered time.Time, p patience) (expired int, gone bool) {
	f.nextAt = time.Time{}
	for s := f.waiting.head; s != nil; {
		next := s.next
		if at := s.sentAt.Add(s.timeout); now.Before(at) {
			if f.nextAt.IsZero() || at.Before(f.nextAt) {
				f.nextAt = at
			}
			s = next
			continue
		}
		s.expired++
		age := now.Sub(s.begun)
		if min(age, now.Sub(answered)) >= p.most || s.expired >= mostExpiries && min(age, now.Sub(heard)) >= p.of(s.first) {
			return expired, true
		}
		s.remove()
		s.timeout = min(2*s.timeout, max(longTimeout, s.first))
		f.resend.push(s)
		expired++
		s = next
	}
	return expired, false
}

// rtt is the smoothed round-trip time and its variation. docs/protocols/enet.md#round-trips has the rules.
type rtt struct {
	_               struct{} `cbor:",toarray"`
	Mean, Deviation time.Duration
	Known           bool
}

// Times of round trips.
const (
	initialRTT = 500 * time.Millisecond
	// leastTimeout is the minimum for peers that read their socket only once per frame. The library has no minimum.
	leastTimeout = 20 * time.Millisecond
)

func newRTT() rtt { return rtt{Mean: initialRTT} }

// sample takes a round trip. All steps are multiples of unit.
func (r *rtt) sample(m, unit time.Duration) {
	if !r.Known {
		r.Mean, r.Deviation, r.Known = m, ((m + time.Millisecond) / 2).Truncate(unit), true
		return
	}
	off := m - r.Mean
	r.Deviation += (off.Abs() / 4).Truncate(unit) - (r.Deviation / 4).Truncate(unit)
	r.Mean += (off / 8).Truncate(unit)
}

// timeout returns how long to wait for an acknowledgement before the first repetition.
func (r *rtt) timeout() time.Duration { return max(r.Mean+4*r.Deviation, leastTimeout) }

// throttleScale is the throttle of a sender that drops nothing.
const throttleScale = 32

// throttleStep is the step of the counter for each unreliable message.
const throttleStep = 7

// throttleTerms are the interval in ms and the steps of a throttle. A peer may set those of its sender.
type throttleTerms struct{ interval, acceleration, deceleration uint32 }

var defaultThrottle = throttleTerms{interval: 5000, acceleration: 2, deceleration: 2}

func (t *throttleTerms) parse(b []byte) {
	t.interval, t.acceleration, t.deceleration = be.Uint32(b), be.Uint32(b[4:]), be.Uint32(b[8:])
}

func (t *throttleTerms) append(b []byte) []byte {
	return be.AppendUint32(be.AppendUint32(be.AppendUint32(b, t.interval), t.acceleration), t.deceleration)
}

// throttle decides which unreliable messages are sent. Growing round trips show that the path is full. The throttle
// also scales the window of reliable messages. It counts whole milliseconds, as the library does: the deviation of a
// steady path then stays at 3 ms, and less than that is no growth. docs/protocols/enet.md#throttle
type throttle struct {
	_       struct{}      `cbor:",toarray"`
	terms   throttleTerms `record:"inline"`
	value   uint32
	counter uint32

	began              time.Time     // start of this interval; zero: no round trip is known
	lowest, widest     time.Duration // round trip and deviation of this interval
	lastRTT, lastWidth time.Duration // of the previous interval
}

func newThrottle(terms throttleTerms) throttle {
	return throttle{terms: terms, value: throttleScale, lowest: initialRTT, lastRTT: initialRTT}
}

// sample takes a round trip. r is the estimate before it, in whole milliseconds. The first one ends an interval.
func (t *throttle) sample(now time.Time, m time.Duration, r *rtt) {
	m = max(m.Truncate(time.Millisecond), time.Millisecond)
	switch {
	case !r.Known:
	case t.lastRTT <= t.lastWidth:
		t.value = throttleScale
	case m <= t.lastRTT:
		t.value = min(t.value+min(t.terms.acceleration, throttleScale), throttleScale)
	case m > t.lastRTT+2*t.lastWidth:
		t.value -= min(t.value, t.terms.deceleration)
	}
	r.sample(m, time.Millisecond)
	t.lowest, t.widest = min(t.lowest, r.Mean), max(t.widest, r.Deviation)
	if t.began.IsZero() || now.Sub(t.began) >= time.Duration(t.terms.interval)*time.Millisecond {
		t.began = now
		t.lastRTT, t.lastWidth = t.lowest, max(t.widest, time.Millisecond)
		t.lowest, t.widest = r.Mean, r.Deviation
	}
}

// drops reports whether the next unreliable message is to be dropped.
func (t *throttle) drops() bool {
	t.counter = (t.counter + throttleStep) % throttleScale
	return t.counter > t.value
}

// window scales a window.
func (t *throttle) window(bytes, mtu int) int {
	return max(int(t.value)*bytes/throttleScale, mtu)
}

var _ codec.Reflector = (*Conn)(nil)

// leastSilence is the shortest silence of a peer that the far side is shown. A live peer answers pings twice a second.
const leastSilence = time.Second

// patience is how long a peer may be silent.
type patience struct {
	limit       int // how much a command's time-out grows before the library gives up
	least, most time.Duration
}

// of returns the patience with the peer of a command with a given first time-out: that of the library, which doubles
// the time-out with each repetition.
func (p patience) of(first time.Duration) time.Duration {
	return min(max(p.least, time.Duration(2*p.limit-1)*first), p.most)
}

func (c *Conn) patience() patience {
	o := c.options
	p := patience{limit: o.TimeoutLimit, least: o.TimeoutMinimum, most: o.Timeout}
	if c.reflected {
		p.least = p.most
	}
	return p
}

// IsSilent implements codec.Reflector. A far peer with the library's least patience then gives up when it would without
// a proxy, although its round trips are shorter.
func (c *Conn) IsSilent(now time.Time) bool {
	o := c.options
	alone := patience{limit: o.TimeoutLimit, least: o.TimeoutMinimum, most: o.Timeout}
	return c.state == connected && now.Sub(c.heard) >= leastSilence+alone.of(c.rtt.timeout())-alone.least
}

// Reflects implements codec.Reflector.
func (*Conn) Reflects() bool { return true }

// Reflect implements codec.Reflector.
func (c *Conn) Reflect(isSilent, isReflected bool) (released bool) {
	released = c.mute && !isSilent
	c.mute, c.reflected = isSilent, isReflected
	return released
}

// isMute reports whether the peer gets nothing until the far side's peer is heard again.
func (c *Conn) isMute() bool { return c.mute && c.state == connected && c.farewell.heard.IsZero() }

var _ codec.Throttler = (*Conn)(nil)

// How long acknowledgements wait under pressure. A peer of the library has at most 64 KiB that are not acknowledged,
// so it sends so much in each of these times. It gives up after 5 s without an acknowledgement at the earliest.
const (
	hesitation = 100 * time.Millisecond
	refusal    = time.Second
)

// Throttle implements codec.Throttler. Nothing is refused: the peer's window stops it.
func (c *Conn) Throttle(_ time.Time, p codec.Pressure) {
	if c.state != connected {
		p = codec.NoPressure
	}
	c.pressure = p
}

// Fill implements codec.Throttler.
func (c *Conn) Fill() float64 {
	return max(float64(c.out.counted())/float64(c.options.MaxQueued), float64(c.out.count)/maxMessages)
}

// Waiting implements codec.Throttler.
func (c *Conn) Waiting() int { return c.in.held }

// acksAt returns from when on the waiting acknowledgements may leave. They do not wait once the peer has said goodbye.
func (c *Conn) acksAt() time.Time {
	at := c.epoch.Add(c.acks.since)
	switch {
	case c.state != connected || !c.farewell.heard.IsZero() || c.pressure == codec.NoPressure:
		return time.Time{}
	case c.pressure == codec.Hesitate:
		return at.Add(hesitation)
	}
	return at.Add(refusal)
}

// heldAcksAt returns when acknowledgements that wait must leave. Zero: none waits.
func (c *Conn) heldAcksAt() time.Time {
	if c.pressure == codec.NoPressure || c.acks.len() == 0 || c.isMute() {
		return time.Time{}
	}
	return c.acksAt()
}
