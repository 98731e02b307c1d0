package rudp

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const (
	savedKind    = "rudp"
	savedVersion = 1
)

var _ = record.Register[savedConn](savedVersion, savedKind)

// savedConn is a Conn as a record. The options are not part of it.
type savedConn struct {
	record.Head
	Server   bool          `cbor:"3,keyasint,omitempty"`
	State    state         `cbor:"4,keyasint"`
	Attempts int           `cbor:"5,keyasint,omitempty"`
	Refused  bool          `cbor:"6,keyasint,omitempty"`
	Last     seq           `cbor:"7,keyasint"`           // received: newest number
	Bits     uint32        `cbor:"8,keyasint,omitempty"` // received: the 32 before it
	RTT      time.Duration `cbor:"9,keyasint,omitempty"`
	Period   time.Duration `cbor:"10,keyasint,omitempty"`
	Tick     record.Moment `cbor:"11,keyasint,omitempty"`
	Deadline record.Moment `cbor:"12,keyasint,omitempty"`
	Heard    record.Moment `cbor:"13,keyasint,omitempty"`
	Stats    saved.Stats   `cbor:"14,keyasint"`

	Next     seq             `cbor:"15,keyasint"`
	Sent     []record.Moment `cbor:"16,keyasint,omitempty"` // of the packets in flight, oldest first
	Receipts []carried       `cbor:"17,keyasint,omitempty"`
	Payloads []byte          `cbor:"18,keyasint,omitempty"` // waiting messages, joined
	Waiting  []waiting       `cbor:"19,keyasint,omitempty"`

	Jump       seq           `cbor:"20,keyasint,omitempty"`
	Jumped     bool          `cbor:"21,keyasint,omitempty"`
	Goodbye    seq           `cbor:"22,keyasint,omitempty"`
	BelievedAt record.Moment `cbor:"23,keyasint,omitempty"`
	ByeLast    seq           `cbor:"24,keyasint,omitempty"` // acknowledged by the goodbye
	ByeBits    uint32        `cbor:"25,keyasint,omitempty"`
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	v := savedConn{
		Head:   record.Head{Kind: savedKind, Version: savedVersion},
		Server: c.server, State: c.state, Attempts: c.attempts, Refused: c.refused,
		Last: c.received.last, Bits: c.received.bits,
		RTT: time.Duration(c.rtt), Period: c.period,
		Tick:     record.MomentOf(now, c.tickAt),
		Deadline: record.MomentOf(now, c.deadline),
		Heard:    record.MomentOf(now, c.heard),
		Stats:    saved.StatsOf(&c.stats),
		Jump:     c.jump.seq, Jumped: c.jump.known,
		Goodbye: c.goodbye.seq, BelievedAt: record.MomentOf(now, c.goodbye.at),
		ByeLast: c.goodbye.acks.last, ByeBits: c.goodbye.acks.bits,
	}
	v.saveFlight(now, &c.flight)
	v.Payloads, v.Waiting = c.outbox.payloads[c.outbox.taken:], c.outbox.waiting[c.outbox.gone:]
	return record.Append(b, &v)
}

func (v *savedConn) saveFlight(now time.Time, f *flight) {
	v.Next = f.next
	for s := f.acked + 1; s != f.next; s++ {
		v.Sent = append(v.Sent, record.MomentOf(now, f.sentAt(s)))
	}
	v.Receipts = f.receipts[f.answered:]
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	var v savedConn
	if err := saved.Read(b, savedKind, savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	c := &Conn{
		options: &p.options,
		server:  v.Server, state: v.State, attempts: v.Attempts, refused: v.Refused,
		received: acks{last: v.Last, bits: v.Bits},
		rtt:      rtt(v.RTT), period: v.Period,
		tickAt: v.Tick.Time(now), deadline: v.Deadline.Time(now), heard: v.Heard.Time(now),
		stats: v.Stats.Restore(),
		jump:  jump{v.Jump, v.Jumped}, goodbye: goodbye{v.Goodbye, acks{v.ByeLast, v.ByeBits}, v.BelievedAt.Time(now)},
	}
	c.flight = v.restoreFlight(now)
	c.outbox.payloads, c.outbox.waiting = v.Payloads, v.Waiting
	return c, nil
}

// check holds a record to the bounds of a Conn. A period of zero is one of a client that has no answer yet.
func (v *savedConn) check() error {
	switch {
	case v.State > closed:
		return saved.Fault("state", v.State)
	case v.Period < 0 || v.Period > time.Second || v.Period == 0 && v.State != dialing && v.State != closed:
		return saved.Fault("period", v.Period)
	case len(v.Sent) > maxInFlight+1:
		return saved.Fault("number of packets in flight", len(v.Sent))
	case len(v.Receipts) > (maxInFlight+1)*maxJoined:
		return saved.Fault("number of receipts", len(v.Receipts))
	case len(v.Waiting) > maxWaiting:
		return saved.Fault("number of waiting messages", len(v.Waiting))
	}
	total := 0
	for _, m := range v.Waiting {
		if m.Size <= 0 || m.Size > codec.MaxDatagram {
			return saved.Fault("size of a waiting message", m.Size)
		}
		total += m.Size
	}
	if total != len(v.Payloads) {
		return saved.Fault("size of all waiting messages", total)
	}
	return saved.Duration("round-trip time", v.RTT)
}

func (v *savedConn) restoreFlight(now time.Time) flight {
	f := newFlight(now, v.Next-seq(len(v.Sent)))
	for _, at := range v.Sent {
		f.number(at.Time(now))
	}
	for _, r := range v.Receipts {
		f.carry(r.Packet, r.Receipt)
	}
	return f
}
