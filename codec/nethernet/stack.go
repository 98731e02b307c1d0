package nethernet

import (
	"crypto/ecdsa"
	"time"

	"tidegate/codec"
)

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
const kept = 4 << 10

func (b *batch) add(reliable, asGame bool, data []byte) {
	if asGame {
		b.bytes = append(b.bytes, gameByte)
	}
	b.bytes = append(b.bytes, data...)
	b.ends = append(b.ends, end{len(b.bytes), reliable})
}

func (b *batch) next() (data []byte, reliable, ok bool) {
	if b.taken == len(b.ends) {
		return nil, false, false
	}
	from := 0
	if b.taken > 0 {
		from = b.ends[b.taken-1].at
	}
	e := b.ends[b.taken]
	b.taken++
	return b.bytes[from:e.at:e.at], e.reliable, true
}

// moveTo appends all strings that were not taken.
func (b *batch) moveTo(to *batch) {
	if to.taken == len(to.ends) {
		to.empty()
	}
	for data, reliable, ok := b.next(); ok; data, reliable, ok = b.next() {
		to.add(reliable, false, data)
	}
	b.empty()
}

func (b *batch) empty() {
	b.bytes, b.ends, b.taken = b.bytes[:0], b.ends[:0], 0
	if cap(b.bytes) > kept {
		b.bytes, b.ends = nil, nil
	}
}
