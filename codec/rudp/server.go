package rudp

import (
	"crypto/sha256"
	"math"
	"net/netip"
	"time"

	"tidegate/codec"
)

const (
	// clientTimeout is how long a real client waits for an answer to its request. A later answer is useless.
	clientTimeout = 500 * time.Millisecond
	// repeaterTimeout is how long a client waits that repeats its request, as ours does every requestInterval. Losses in
	// a row do not end the wait.
	repeaterTimeout = 6 * requestInterval
	// maxAccepts bounds how often the server sends Accept before the client has answered. A client that has not proved
	// its address receives nothing else.
	maxAccepts = 8
	// proofTime is the least time that the client has for its answer. The time is 34 periods if that is longer.
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
		deadline: now.Add(clientTimeout),
	}
	c.stats.Received = 1
	c.events.Push(codec.Event{Kind: codec.Asked})
	return c
}

// Admit tells the client that it is accepted. Its acknowledgement starts the session.
func (c *Conn) Admit(now time.Time, _ uint16) {
	if c.state != asked {
		return
	}
	c.state = admitted
	c.deadline = now.Add(max(proofTime, (maxInFlight+1)*c.period))
	c.tickAt = now
	c.tick(now)
}

// receiveUndecided takes a packet of a client that waits for the proxy's decision. A repeated request extends the
// wait. The library refuses it, but a refusal would drive the client away.
func (c *Conn) receiveUndecided(now time.Time, p *packet) error {
	switch p.kind {
	case kindRequest:
		c.deadline = now.Add(repeaterTimeout)
		return codec.ErrDuplicate
	case kindNotify:
		c.end(codec.Closed)
		return nil
	}
	return codec.ErrUnexpected
}

// repeatAccept makes another Accept due. The library sends only one, and a client that misses it fails to connect.
func (c *Conn) repeatAccept() {
	if c.attempts < maxAccepts {
		c.attempts++
		c.due = true
	}
}

func (c *Conn) appendAccept(now time.Time, b []byte) []byte {
	t := terms{rate: c.Pace()}
	return c.write(b, &packet{seq: c.flight.number(now), kind: kindAccept, data: t.append(nil)})
}

var _ codec.Paced = (*Conn)(nil)

// Pace implements codec.Paced. Several rates have one period, which is all that counts.
func (c *Conn) Pace() uint8 {
	switch {
	case c.period == 0:
		return 0
	case c.period == periodOf(c.options.Rate):
		return c.options.Rate
	}
	return uint8(min(time.Second/c.period, math.MaxUint8))
}

// SetPace implements codec.Paced. An Accept tells it to the client.
func (c *Conn) SetPace(pace uint8) {
	if c.state == asked && pace > 0 {
		c.period = periodOf(pace)
	}
}

// periodOf returns the time between two packets, in whole milliseconds as in the library.
func periodOf(rate uint8) time.Duration { return time.Duration(1000/int(rate)) * time.Millisecond }

// firstSeq returns the number of a server's first packet. A client accepts any number below 2^15.
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
