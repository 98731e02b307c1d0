package enet

import (
	"time"
)

// maxFlight is the number of a channel's numbers that may be unacknowledged. A message in parts that are more waits
// until its channel is idle. The library's receivers take at least 6 times 4,096.
const (
	maxFlight = 4096
	maxParts  = 6 * 4096
)

// sentCommand is a reliable command that was sent and is not acknowledged yet.
type sentCommand struct {
	prev, next *sentCommand
	list       *commandList
	kind       kind
	channel    uint8
	seq        uint16
	message    *message // nil for control commands
	index      uint32   // index of the fragment
	size       int      // bytes of payload
	data       uint32   // of a Disconnect

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
	_          struct{} `cbor:",toarray"`
	Reliable   uint16   // last assigned number
	Unreliable uint16   // last number assigned since then
	Oldest     uint16   // first unacknowledged number
	Sent       uint16   // last sent number; a message's numbers are assigned together
	ring       []*sentCommand
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

func (r *rtt) sample(m time.Duration) {
	if !r.Known {
		r.Mean, r.Deviation, r.Known = m, (m+time.Millisecond)/2, true
		return
	}
	r.Deviation += ((m - r.Mean).Abs() - r.Deviation) / 4
	r.Mean += (m - r.Mean) / 8
}

// timeout returns how long to wait for an acknowledgement before the first repetition.
func (r *rtt) timeout() time.Duration { return max(r.Mean+4*r.Deviation, leastTimeout) }
