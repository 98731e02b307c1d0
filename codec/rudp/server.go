package rudp

import (
	"crypto/sha256"
	"net/netip"
	"time"

	"tidegate/codec"
)

const (
	// clientPatience is how long a real client waits for an answer to its request. One that comes later is useless.
	clientPatience = 500 * time.Millisecond
	// maxAccepts is how often a client is told that it is accepted before it has answered. As long as it has not
	// proved its address it is sent nothing else.
	maxAccepts = 8
	// proofTime is the least time that it has for its answer. It is 34 periods where those are longer.
	proofTime = time.Second
)

// accept makes the server's side of a session from a client's request. docs/protocols/rudp.md#server
func accept(p *Protocol, now time.Time, from netip.AddrPort) *Conn {
	o := &p.options
	c := &Conn{
		options:  o,
		server:   true,
		state:    asked,
		period:   periodOf(o.Rate),
		received: acks{last: o.base},
		flight:   newFlight(now, o.firstSeq(now, from)),
		deadline: now.Add(clientPatience),
	}
	c.stats.Received = 1
	c.events.Push(codec.Event{Kind: codec.Asked})
	return c
}

// Admit tells the client that it is accepted. Its acknowledgement makes the session.
func (c *Conn) Admit(now time.Time, _ uint16) {
	if c.state != asked {
		return
	}
	c.state = admitted
	c.deadline = now.Add(max(proofTime, (maxInFlight+1)*c.period))
	c.tickAt = now
	c.tick(now)
}

// receiveUndecided takes what a client says that has not been answered. A repeated request keeps its hope alive; to
// refuse it, as the library does, would drive the client away.
func (c *Conn) receiveUndecided(now time.Time, p *packet) error {
	switch p.kind {
	case kindRequest:
		c.deadline = now.Add(clientPatience)
		return codec.ErrDuplicate
	case kindNotify:
		c.end(codec.Closed)
		return nil
	}
	return codec.ErrUnexpected
}

// repeatAccept makes another Accept due: the library sends one, and a client that misses it has failed.
func (c *Conn) repeatAccept() {
	if c.attempts < maxAccepts {
		c.attempts++
		c.due = true
	}
}

func (c *Conn) appendAccept(now time.Time, b []byte) []byte {
	t := terms{rate: c.options.Rate}
	return c.write(b, &packet{seq: c.flight.number(now), kind: kindAccept, data: t.append(nil)})
}

// periodOf is the time between two packets, in whole milliseconds as the library counts.
func periodOf(rate uint8) time.Duration { return time.Duration(1000/int(rate)) * time.Millisecond }

// firstSeq is the number of a server's first packet. A client takes any below 2^15.
func (o *Options) firstSeq(now time.Time, from netip.AddrPort) seq {
	if o.Seed == [32]byte{} {
		return o.base
	}
	var b [32 + 8 + 16 + 2]byte
	copy(b[:], o.Seed[:])
	be.PutUint64(b[32:], uint64(now.UnixNano()))
	ip := from.Addr().As16()
	copy(b[40:], ip[:])
	be.PutUint16(b[56:], from.Port())
	sum := sha256.Sum256(b[:])
	return o.base + seq(be.Uint16(sum[:])>>1)
}
