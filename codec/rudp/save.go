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
	*Conn
	RTT time.Duration `cbor:"9,keyasint,omitempty"`

	Next     seq         `cbor:"15,keyasint"`
	Sent     []time.Time `cbor:"16,keyasint,omitempty"` // of the packets in flight, oldest first
	Receipts []carried   `cbor:"17,keyasint,omitempty"`
	Payloads []byte      `cbor:"18,keyasint,omitempty"` // waiting messages, joined
	Waiting  []waiting   `cbor:"19,keyasint,omitempty"`
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	f, o := &c.flight, &c.outbox
	v := savedConn{
		Head: record.Head{Kind: savedKind, Version: savedVersion}, Conn: c, RTT: time.Duration(c.rtt), Next: f.next,
		Receipts: f.receipts[f.answered:], Payloads: o.payloads[o.taken:], Waiting: o.waiting[o.gone:],
	}
	for s := f.acked + 1; s != f.next; s++ {
		v.Sent = append(v.Sent, f.sentAt(s))
	}
	return record.AppendAt(now, b, &v)
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	c := &Conn{options: &p.options}
	v := savedConn{Conn: c}
	if err := saved.ReadAt(now, b, savedKind, savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	c.rtt = rtt(v.RTT)
	c.flight = newFlight(now, v.Next-seq(len(v.Sent)))
	for _, at := range v.Sent {
		c.flight.number(at)
	}
	for _, r := range v.Receipts {
		c.flight.carry(r.Packet, r.Receipt)
	}
	c.outbox.payloads, c.outbox.waiting = v.Payloads, v.Waiting
	return c, nil
}

// check holds a record to the bounds of a Conn. A period of zero is one of a client that has no answer yet.
func (v *savedConn) check() error {
	switch {
	case v.state > closed:
		return saved.Fault("state", v.state)
	case v.period < 0 || v.period > time.Second || v.period == 0 && v.state != dialing && v.state != closed:
		return saved.Fault("period", v.period)
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
