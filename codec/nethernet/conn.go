package nethernet

import (
	"time"

	"tidegate/codec"
)

// Spec has the facts of NetherNet. Its messages are those of Bedrock over RakNet. A client checks its path every few
// seconds, and gives up after 30 s.
var Spec = codec.Spec{
	Name: "nethernet", Modes: codec.ModesOf(codec.Unreliable, codec.ReliableOrdered), IDs: codec.IDFirstByte,
	Proof: codec.ProvedAccept, IdleTimeout: 30 * time.Second,
}

// Conn is one end of a connection above a Stack. Its owner calls Advance when the Stack has something.
type Conn struct {
	stack    Stack
	dials    bool
	in       Delivery
	stats    codec.Stats
	asked    bool // Asked or, of a dialing end, Connected has been reported
	admitted bool
	up       bool
	closing  bool
	over     bool
}

var _ codec.Throttler = (*Conn)(nil)

// NewConn returns the accepting or the dialing end.
func NewConn(stack Stack, dials bool) *Conn { return &Conn{stack: stack, dials: dials} }

// Receive implements codec.Conn.
func (c *Conn) Receive(_ time.Time, datagram []byte) error {
	if KindOf(datagram) != DTLS {
		return c.stats.Count(codec.ErrMalformed)
	}
	c.stack.Datagram(datagram)
	return c.stats.Count(nil)
}

// Advance implements codec.Conn.
func (c *Conn) Advance(time.Time) { c.stack.Take(&c.in) }

// Send implements codec.Conn. Only messages of Bedrock can cross.
func (c *Conn) Send(_ time.Time, m codec.Message) error {
	switch {
	case c.closing || c.over:
		return codec.ErrClosed
	case m.Mode != codec.Unreliable && m.Mode != codec.ReliableOrdered,
		len(m.Payload) < 2 || m.Payload[0] != gameByte:
		return codec.ErrMode
	}
	return c.stack.Send(m.Payload[1:], m.Mode == codec.ReliableOrdered)
}

// Announce implements codec.Conn.
func (c *Conn) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// Admit implements codec.Conn.
func (c *Conn) Admit(time.Time, uint16) { c.admitted = true }

// Close implements codec.Conn. The player is told why, as a server of the game does.
func (c *Conn) Close(_ time.Time, why codec.Goodbye) {
	if c.closing || c.over {
		return
	}
	c.closing = true
	text := why.Text
	if text == "" {
		text = partings[why.Reason]
	}
	if c.dials {
		text = ""
	}
	c.stack.Close(text)
}

// partings are what a player reads when the connection ends. Bedrock has no codes for these cases.
var partings = map[codec.Reason]string{
	codec.NoConnection:  "The server does not answer.",
	codec.ServerFull:    "The server is full.",
	codec.Rejected:      "The server has refused the connection.",
	codec.Banned:        "Your address is banned.",
	codec.Incompatible:  "The server has another version.",
	codec.TimedOut:      "The connection has timed out.",
	codec.Kicked:        "The server has ended the connection.",
	codec.ServerStopped: "The server has ended the connection. Please join again.",
	codec.Overflow:      "Your connection is too slow.",

	codec.PoorConnection: "The connection is too poor. Please join again.",
}

// Poll implements codec.Conn.
func (c *Conn) Poll() (codec.Event, bool) {
	switch {
	case c.over:
		return codec.Event{}, false
	case c.in.Open && !c.asked && c.dials:
		c.asked, c.up = true, true
		c.stack.Pause(false)
		return codec.Event{Kind: codec.Connected}, true
	case c.in.Open && !c.asked:
		c.asked = true
		return codec.Event{Kind: codec.Asked}, true
	case c.admitted && !c.up && !c.closing:
		c.up = true
		c.stack.Pause(false)
		return codec.Event{Kind: codec.Connected}, true
	}
	if c.up {
		if payload, reliable, ok := c.in.Message(); ok {
			m := codec.Message{Payload: payload}
			if reliable {
				m.Mode = codec.ReliableOrdered
			}
			return codec.Event{Kind: codec.Received, Message: m}, true
		}
	}
	if c.in.End.Reason == codec.ReasonNone {
		return codec.Event{}, false
	}
	c.over = true
	return codec.Event{Kind: codec.Disconnected, Reason: c.in.End.Reason}, true
}

// Transmit implements codec.Conn.
func (c *Conn) Transmit(_ time.Time, b []byte) ([]byte, bool) {
	datagram, ok := c.in.Datagram()
	if !ok {
		return b, false
	}
	c.stats.Sent++
	return append(b, datagram...), true
}

// NextTimeout implements codec.Conn. The Stack has its own clock.
func (c *Conn) NextTimeout() time.Time { return time.Time{} }

// Stats implements codec.Conn.
func (c *Conn) Stats() codec.Stats {
	c.stats.Queued, c.stats.Held = c.stack.Load()
	c.stats.RTT = c.stack.RTT()
	return c.stats
}

// Save implements codec.Conn. A Stack cannot be saved: its owner ends the connection before.
func (c *Conn) Save(_ time.Time, b []byte) []byte { return b }

// Throttle implements codec.Throttler: the peer's messages wait in its own queue.
func (c *Conn) Throttle(_ time.Time, p codec.Pressure) { c.stack.Pause(p == codec.Refuse || !c.up) }

// Fill implements codec.Throttler.
func (c *Conn) Fill() float64 {
	queued, _ := c.stack.Load()
	return float64(queued) / MaxQueue
}

// Waiting implements codec.Throttler.
func (c *Conn) Waiting() int { return 0 }

// IsOpen reports whether the channels are open.
func (c *Conn) IsOpen() bool { return c.in.Open }

// End returns why the Stack has ended.
func (c *Conn) End() End { return c.in.End }

// Abandon ends the Stack at once.
func (c *Conn) Abandon() { c.stack.Abandon() }

// MaxQueue bounds the bytes that wait for a peer.
const MaxQueue = 4 << 20
