//go:build interop

package interop_test

import (
	"maps"
	"slices"
	"time"
)

// The rules of Riptide 2.2 in C# that decide whether a connection lives. No such library runs here, so this peer is
// made from facts about it (docs/protocols/riptide.md). It works in ticks: each repeats messages before it reads new
// datagrams.
const (
	ripBeat     = time.Second           // between heartbeats
	ripTimeout  = 5 * time.Second       // without a Welcome or a heartbeat
	ripFirst    = 50 * time.Millisecond // before a repeat, while no round trip is known
	ripLeast    = 10 * time.Millisecond
	ripSends    = 15 // of one message; then the connection is a poor one
	ripAttempts = 5  // Connects
	ripQuality  = 64 // messages whose sends count

	ripUnreliable, ripAck, ripConnect, ripReject, ripHeartbeat, ripDisconnect = 0, 1, 2, 3, 4, 5
	ripReliable, ripWelcome, ripJoined, ripLeft                               = 7, 8, 9, 10

	ripServerFull                         = 2 // reason of a refusal
	ripTimedOut, ripDisconnected, ripPoor = 3, 6, 7
	ripID                                 = 1   // of each message
	ripKiller                             = 128 // ID at which a RelayFilter of 100 ends the server
)

// ripBits is Riptide's stream of bits, least significant first.
type ripBits struct {
	b  []byte
	at int
}

func (w *ripBits) put(v uint64, bits int) *ripBits {
	for i := range bits {
		if w.at%8 == 0 {
			w.b = append(w.b, 0)
		}
		w.b[w.at/8] |= byte(v>>i&1) << (w.at % 8)
		w.at++
	}
	return w
}

func (w *ripBits) bytes(p []byte) *ripBits {
	for _, c := range p {
		w.put(uint64(c), 8)
	}
	return w
}

// take reads bits; missing ones are 0.
func (w *ripBits) take(bits int) (v uint64) {
	for i := range bits {
		if w.at/8 < len(w.b) {
			v |= uint64(w.b[w.at/8]>>(w.at%8)&1) << i
		}
		w.at++
	}
	return v
}

func (w *ripBits) rest() (p []byte) {
	for w.at+8 <= 8*len(w.b) {
		p = append(p, byte(w.take(8)))
	}
	return p
}

// ripPending is a reliable message without an acknowledgement.
type ripPending struct {
	datagram []byte
	due      time.Time
	sends    int
}

// ripConn is either end of a connection.
type ripConn struct {
	send    func(d []byte)
	id      uint16
	up      bool // Welcomes went both ways
	next    uint16
	pending map[uint16]*ripPending
	seen    map[uint16]bool
	last    uint16
	alive   time.Time
	rtt     time.Duration // smoothed; negative: unknown

	sends []int // of the last ripQuality reliable messages that were acknowledged
}

func newRipConn(now time.Time, send func(d []byte)) *ripConn {
	return &ripConn{send: send, pending: make(map[uint16]*ripPending), seen: map[uint16]bool{0: true}, alive: now, rtt: -1}
}

// reliable sends a reliable message of a kind.
func (c *ripConn) reliable(now time.Time, kind int, content *ripBits) {
	c.next++
	w := new(ripBits).put(uint64(kind), 4).put(uint64(c.next), 16)
	for i := range content.at {
		w.put(uint64(content.b[i/8]>>(i%8)&1), 1)
	}
	c.pending[c.next] = &ripPending{datagram: w.b, due: now.Add(c.wait()), sends: 1}
	c.send(w.b)
}

// wait is the time to a repeat.
func (c *ripConn) wait() time.Duration {
	if c.rtt < 0 {
		return ripFirst
	}
	return max(ripLeast, c.rtt*6/5)
}

// resend repeats the messages that are due. It reports a message that has been sent too often.
func (c *ripConn) resend(now time.Time) (poor bool) {
	for _, number := range slices.Sorted(maps.Keys(c.pending)) {
		p := c.pending[number]
		switch {
		case now.Before(p.due):
		case p.sends >= ripSends:
			if c.up {
				return true
			}
			delete(c.pending, number)
		default:
			p.sends++
			p.due = now.Add(c.wait())
			c.send(p.datagram)
		}
	}
	return false
}

// acknowledged takes an Ack.
func (c *ripConn) acknowledged(r *ripBits) {
	last, bits := uint16(r.take(16)), r.take(16)
	if r.take(1) == 1 {
		c.arrived(uint16(r.take(16)))
	} else {
		c.arrived(last)
	}
	for i := range uint16(16) {
		if bits>>i&1 == 1 {
			c.arrived(last - i - 1)
		}
	}
}

func (c *ripConn) arrived(number uint16) {
	if p := c.pending[number]; p != nil {
		c.sends = append(c.sends[max(0, len(c.sends)-ripQuality+1):], p.sends)
		delete(c.pending, number)
	}
}

// take acknowledges a reliable message, and reports whether it is new.
func (c *ripConn) take(number uint16) bool {
	if int16(number-c.last) > 0 {
		c.last = number
	}
	fresh := !c.seen[number]
	c.seen[number] = true
	w := new(ripBits).put(ripAck, 4).put(uint64(c.last), 16)
	for i := range uint16(16) {
		bit := uint64(0)
		if c.seen[c.last-i-1] {
			bit = 1
		}
		w.put(bit, 1)
	}
	if number == c.last {
		w.put(0, 1)
	} else {
		w.put(1, 1).put(uint64(number), 16)
	}
	c.send(w.b)
	return fresh
}

// measured takes a round trip, as the client measured it.
func (c *ripConn) measured(rtt time.Duration) {
	switch {
	case rtt < 0:
	case c.rtt < 0:
		c.rtt = max(time.Millisecond, rtt)
	default:
		c.rtt = max(time.Millisecond, (7*c.rtt+3*rtt)/10)
	}
}
