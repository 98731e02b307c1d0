package enet

import (
	"slices"
	"time"
)

// maxAcks bounds the waiting acknowledgements.
const maxAcks = 1024

// ack is an acknowledgement that we must send.
type ack struct {
	_         struct{} `cbor:",toarray"`
	Channel   uint8
	Seq, Time uint16
}

// acks holds the acknowledgements that wait for a datagram.
type acks struct {
	list  []ack
	head  int
	since time.Duration // when the first of them began to wait
}

func (a *acks) len() int { return len(a.list) - a.head }

// add queues the acknowledgement of a command. time is that of its datagram.
func (a *acks) add(now time.Duration, cmd *command, time uint16) {
	if a.len() == 0 {
		a.since = now
	}
	a.list = append(a.list, ack{Channel: cmd.channel, Seq: cmd.seq, Time: time})
}

// has reports whether the acknowledgement of a command waits already.
func (a *acks) has(cmd *command) bool {
	return slices.ContainsFunc(a.list[a.head:], func(w ack) bool { return w.Channel == cmd.channel && w.Seq == cmd.seq })
}

// append appends acknowledgements as long as they fit into room bytes.
func (a *acks) append(b []byte, room int) []byte {
	for ; a.len() > 0 && room >= ackLen; room -= ackLen {
		one := a.list[a.head]
		b = appendCommand(b, kindAck, 0, one.Channel, one.Seq)
		b = be.AppendUint16(be.AppendUint16(b, one.Seq), one.Time)
		a.head++
	}
	if a.len() == 0 {
		a.list, a.head = a.list[:0], 0
		if cap(a.list) > keptMessages*4 {
			a.list = nil
		}
	}
	return b
}

// peerClock knows a peer's clock. It recognizes a forged goodbye, which names another time.
type peerClock struct {
	offset uint16
	at     time.Time // when offset was learned; zero: never
}

// clockTolerance is the greatest delay of a datagram in ms, and the greatest drift of a clock between two datagrams.
const clockTolerance = 8000

func (p *peerClock) set(now time.Time, clock uint16) { p.offset, p.at = clock, now }

// allows reports whether a datagram's time is plausible, and learns from it if it is.
func (p *peerClock) allows(now time.Time, clock uint16) bool {
	if p.at.IsZero() {
		p.set(now, clock)
		return true
	}
	expected := p.offset + uint16(now.Sub(p.at).Milliseconds())
	late := int(int16(clock - expected))
	if late < -clockTolerance || late > clockTolerance {
		return false
	}
	if late > 0 {
		p.set(now, clock) // the least delayed datagram is the most exact
	}
	return true
}
