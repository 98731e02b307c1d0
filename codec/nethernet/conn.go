// Package nethernet reads and writes what Minecraft Bedrock's NetherNet says in the open: WebRTC without a WebRTC
// library. It has no sockets, clocks or goroutines. docs/protocols/nethernet.md describes the wire, and says which part
// of Tidegate uses this package.
//
// A join exchanges two session descriptions over HTTP (description.go), each signed by an identity (identity.go,
// token.go). Datagrams follow on one UDP port: binding.go tells them apart, and reads the STUN requests that prove who
// sends. Inside the encrypted connection, messages travel in fragments (conn.go). status.go translates server lists.
// conn.go and call.go have connections above a Stack, to clients and to servers, and sources.go the checks of a path to
// a server. Start with Description and Binding.
package nethernet

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
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
	stack    Stack // nil: that of a Call whose server has not answered
	dials    bool
	in       Delivery
	stats    codec.Stats
	asked    bool // Asked or, of a dialing end, Connected has been reported
	admitted bool
	up       bool
	closing  bool
	over     bool
}

var errNotGame = fmt.Errorf("nethernet: message without content behind a first byte 0xfe: %w", codec.ErrMode)
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
	case m.Mode != codec.Unreliable && m.Mode != codec.ReliableOrdered:
		return codec.ErrMode
	case len(m.Payload) < 2 || m.Payload[0] != gameByte:
		return errNotGame
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
	if c.stack != nil {
		c.stats.Queued, c.stats.Held = c.stack.Load()
		c.stats.RTT = c.stack.RTT()
	}
	return c.stats
}

// Save implements codec.Conn. A Stack cannot be saved: its owner ends the connection before.
func (c *Conn) Save(_ time.Time, b []byte) []byte { return b }

// Throttle implements codec.Throttler: the peer's messages wait in its own queue.
func (c *Conn) Throttle(_ time.Time, p codec.Pressure) {
	if c.stack != nil {
		c.stack.Pause(p == codec.Refuse || !c.up)
	}
}

// Fill implements codec.Throttler.
func (c *Conn) Fill() float64 { return float64(c.Stats().Queued) / MaxQueue }

// Waiting implements codec.Throttler.
func (c *Conn) Waiting() int { return 0 }

// IsOpen reports whether the channels are open.
func (c *Conn) IsOpen() bool { return c.in.Open }

// End returns why the Stack has ended.
func (c *Conn) End() End { return c.in.End }

// Abandon ends the Stack at once.
func (c *Conn) Abandon() { c.stack.Abandon() }

// MaxQueue bounds the bytes that wait for a peer, as the default queue of a route does.
const MaxQueue = 16 << 20

// Sizes of fragments in bytes, with the byte that counts.
const (
	// UsualFragment is good for all known peers: some refuse larger messages of SCTP.
	UsualFragment = 10_000
	// MaxFragment is the largest one that a peer may send.
	MaxFragment = 262_144
	// MaxFragments is the largest number of fragments of one message that a Bedrock server takes.
	MaxFragments = 255
)

// Errors of Assembler.Add and Split.
var (
	ErrCountdown = errors.New("a fragment does not continue its message")
	ErrAssembly  = fmt.Errorf("%w: message too large to be put together", codec.ErrLimit)
)

// Splitter cuts a message into fragments. Before each stands a byte with the number of fragments that follow.
type Splitter struct {
	rest []byte
	size int
	left int // fragments
}

// Split begins to cut a message. It keeps the message, not a copy. Fragments have at most size bytes. A message on the
// unreliable channel must fit into one. The error wraps codec.ErrTooLarge: there would be more than MaxFragments.
func Split(message []byte, size int) (Splitter, error) {
	size = min(max(size, 2), MaxFragment) - 1
	count := max(1, (len(message)+size-1)/size)
	if count > MaxFragments {
		return Splitter{}, fmt.Errorf("%w: %d fragments", codec.ErrTooLarge, count)
	}
	return Splitter{rest: message, size: size, left: count}, nil
}

// Append appends the next fragment, or reports false if there is none.
func (s *Splitter) Append(b []byte) ([]byte, bool) {
	if s.left == 0 {
		return b, false
	}
	s.left--
	n := min(s.size, len(s.rest))
	b = append(append(b, byte(s.left)), s.rest[:n]...)
	s.rest = s.rest[n:]
	return b, true
}

// Assembler puts the fragments of one reliable channel together. The zero value takes no message of several fragments.
type Assembler struct {
	// Limit bounds a message of several fragments, in bytes. The memory of a message grows with what has arrived.
	Limit int

	message []byte
	left    int // fragments of the message that are missing; 0: it has not begun
}

// Add takes one message of the channel. When it completes a message of the game, it returns that message, which is
// valid until the next Add. Nothing otherwise: a message has at least a byte. After an error the message is lost, and
// with it the connection: SCTP lost nothing, so the peer is broken.
func (a *Assembler) Add(fragment []byte) ([]byte, error) {
	if len(fragment) == 0 { // Bedrock servers ignore it
		return nil, nil
	}
	left, data := int(fragment[0]), fragment[1:]
	switch {
	case a.left == 0 && left == 0:
		return data, nil
	case a.left == 0:
		a.message = a.message[:0]
	case left != a.left-1:
		a.Forget()
		return nil, ErrCountdown
	}
	if len(data) > a.Limit-len(a.message) {
		a.Forget()
		return nil, ErrAssembly
	}
	a.message, a.left = append(a.message, data...), left
	if left > 0 {
		return nil, nil
	}
	return a.message, nil
}

// Forget gives up the message that is not complete, and frees its memory.
func (a *Assembler) Forget() { a.message, a.left = nil, 0 }

// Held returns the size of the memory that the Assembler holds, in bytes.
func (a *Assembler) Held() int { return cap(a.message) }

// Labels of the two data channels.
const (
	ReliableLabel   = "ReliableDataChannel"
	UnreliableLabel = "UnreliableDataChannel"
)

// Peer is what a session description says of its author, once its identity is verified.
type Peer struct {
	Fingerprints   []Fingerprint
	MaxMessageSize int              // see Description
	Key            *ecdsa.PublicKey // that the player's login must have; nil: any
	Certificate    string           // the digest of ours, as the Peer was told; empty: the only one
}

// Stack is one connection's DTLS, SCTP and data channels. It has goroutines and a clock of its own, so it is no part of
// a codec. It calls its owner when Take has something new, once until the next Take. All methods return at once.
type Stack interface {
	// Datagram takes a DTLS datagram of the peer's, which it copies. It drops the datagram if too many wait.
	Datagram(datagram []byte)
	// Send queues a copy of a message. Errors are codec.ErrFull, ErrTooLarge and ErrClosed.
	Send(message []byte, reliable bool) error
	// Take appends what has come since the last call.
	Take(to *Delivery)
	// Pause holds the peer's messages back, so that the peer must wait. A Stack begins paused.
	Pause(on bool)
	// Load returns the bytes that wait for the peer, and the bytes of the peer's unfinished messages.
	Load() (queued, held int)
	// RTT returns the smoothed round-trip time; zero until measured.
	RTT() time.Duration
	// Close sends the queued messages and a last text for the player, within a second. Then it says goodbye.
	Close(text string)
	// Abandon ends the Stack at once. It does not call its owner any more.
	Abandon()
}

// End is why a Stack has ended.
type End struct {
	Reason codec.Reason // ReasonNone: it has not
	Err    error        // for the log; nil: the peer left in the usual way
}

// Delivery is what a Stack has for its owner. The zero value is empty.
type Delivery struct {
	Open bool // messages may be sent
	End  End

	datagrams, messages batch
}

// AddDatagram adds a copy of a datagram to the peer.
func (d *Delivery) AddDatagram(datagram []byte) { d.datagrams.add(false, false, datagram) }

// AddMessage adds a copy of a whole message of the peer's. RakNet's message is the same with a byte before it.
func (d *Delivery) AddMessage(message []byte, reliable bool) { d.messages.add(reliable, true, message) }

// Sizes returns the bytes of the datagrams and the messages that wait.
func (d *Delivery) Sizes() (datagrams, messages int) {
	return len(d.datagrams.bytes), len(d.messages.bytes)
}

// MoveTo appends everything to another Delivery, and empties this one. Open and End stay.
func (d *Delivery) MoveTo(to *Delivery) {
	to.Open, to.End = d.Open, d.End
	d.datagrams.moveTo(&to.datagrams)
	d.messages.moveTo(&to.messages)
}

// Datagram returns the next datagram to the peer. It is valid until the next MoveTo.
func (d *Delivery) Datagram() (datagram []byte, ok bool) {
	datagram, _, ok = d.datagrams.next()
	return datagram, ok
}

// Message returns the next message of the peer's with RakNet's byte before it. It is valid until the next MoveTo.
func (d *Delivery) Message() (message []byte, reliable, ok bool) { return d.messages.next() }

// gameByte begins each RakNet message of Bedrock's.
const gameByte = 0xfe

// batch is a queue of byte strings in one piece of memory.
type batch struct {
	bytes []byte
	ends  []end // of the strings
	taken int   // strings
}

type end struct {
	at       int
	reliable bool
}

// kept bounds the memory in bytes of an empty batch.
const kept = 2 << 10

func (b *batch) add(reliable, asGame bool, data []byte) {
	if asGame {
		b.bytes = append(b.bytes, gameByte)
	}
	b.bytes = append(b.bytes, data...)
	b.ends = append(b.ends, end{len(b.bytes), reliable})
}

func (b *batch) next() (data []byte, reliable, ok bool) {
	if len(b.ends) == 0 {
		return nil, false, false
	}
	from := 0
	if b.taken > 0 {
		from = b.ends[b.taken-1].at
	}
	e := b.ends[b.taken]
	data = b.bytes[from:e.at:e.at]
	if b.taken++; b.taken == len(b.ends) {
		b.empty()
	}
	return data, e.reliable, true
}

// moveTo appends all strings that were not taken.
func (b *batch) moveTo(to *batch) {
	if len(to.ends) == 0 {
		*b, *to = *to, *b
	}
	for data, reliable, ok := b.next(); ok; data, reliable, ok = b.next() {
		to.add(reliable, false, data)
	}
}

func (b *batch) empty() {
	b.bytes, b.ends, b.taken = b.bytes[:0], b.ends[:0], 0
	if cap(b.bytes) > kept {
		b.bytes, b.ends = nil, nil
	}
}
