package rudp

import (
	"crypto/sha256"
	"math"
	"net/netip"
	"time"

	"tidegate/codec"
)

// requestInterval is the time between a client's requests. The library's clients send one request.
const requestInterval = 250 * time.Millisecond

// dial makes the client's side of a session. docs/protocols/rudp.md#client
func dial(p *Protocol, now time.Time) *Conn {
	o := &p.options
	c := &Conn{
		options:  o,
		state:    dialing,
		received: acks{last: o.base - 1},
		flight:   newFlight(now, o.base+1), // the request is number 0 and counts as acknowledged
		deadline: now.Add(o.DialTimeout),
		tickAt:   now,
	}
	c.repeatRequest(now)
	return c
}

// repeatRequest makes another request due. A real server refuses all requests but the first until it has decided.
func (c *Conn) repeatRequest(now time.Time) {
	c.attempts++
	c.due = true
	c.schedule(now, requestInterval)
}

// receiveAnswer takes a server's answer to our request.
func (c *Conn) receiveAnswer(now time.Time, p *packet) error {
	switch {
	case p.kind == kindRefuse:
		c.receiveRefuse(p)
		return nil
	case p.kind != kindAccept || p.app != c.options.AppID:
		return codec.ErrUnexpected
	case p.seq.minus(c.received.last) <= 0 || !c.flight.allows(p.acks.last):
		return codec.ErrWindow
	}
	var t terms
	if err := t.parse(p.data); err != nil {
		return err
	}
	c.received.add(p.seq)
	c.heard = now
	c.period = periodOf(t.rate)
	c.tickAt = now.Add(c.period)
	c.due = false
	c.open()
	return nil
}

// receiveRefuse takes a Refuse. A server of another application sends its own AppID. A real server of our application
// also refuses a repeated request while the first one waits. If we have sent several, an answer to the first may still
// come, so the client waits and sends nothing more.
func (c *Conn) receiveRefuse(p *packet) {
	switch {
	case p.app != c.options.AppID:
		c.end(codec.Incompatible)
	case c.attempts == 1:
		c.end(codec.Rejected)
	default:
		c.refused, c.due = true, false
		c.tickAt = time.Time{}
	}
}

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

// A forger can guess numbers that a session accepts. So two things need evidence:
//
//   - A goodbye ends the session when the peer then falls silent. A peer in session sends in every period.
//   - A packet that is far ahead counts when another one follows it.
const (
	goodbyePeriods = 12                     // without a packet, after which a goodbye is believed
	leastSilence   = 200 * time.Millisecond // the same as a time, if that is longer
	maxSkipped     = 5                      // how far ahead a packet counts at once
)

// goodbye is one that the peer has said, and that is not believed yet.
type goodbye struct {
	seq  seq       `cbor:"22,keyasint,omitempty"`
	acks acks      `record:"inline+17"`
	at   time.Time `cbor:"23,keyasint,omitempty"` // when the session ends; zero: there is none
}

// awaitSign begins to wait for a sign of life.
func (c *Conn) awaitSign(now time.Time) {
	c.goodbye.at = now.Add(max(goodbyePeriods*c.period, leastSilence))
}

// believe ends the session by the peer's goodbye, if it has said one. Only now its acknowledgements count.
func (c *Conn) believe(now time.Time) bool {
	if c.goodbye.at.IsZero() {
		return false
	}
	if c.flight.allows(c.goodbye.acks.last) {
		c.acknowledge(now, &c.goodbye.acks)
	}
	c.end(codec.Closed)
	return true
}

// outlives forgets a goodbye of a peer that sends a later packet.
func (g *goodbye) outlives(s seq) {
	if !g.at.IsZero() && s.minus(g.seq) > 0 {
		*g = goodbye{}
	}
}

// jump is a packet that was too far ahead to count.
type jump struct {
	seq   seq  `cbor:"20,keyasint,omitempty"`
	known bool `cbor:"21,keyasint,omitempty"`
}

// allows reports whether a packet that is gap ahead counts. If not, it waits for one that follows it.
func (j *jump) allows(s seq, gap int) bool {
	after := s.minus(j.seq)
	if gap <= maxSkipped || j.known && after > 0 && after <= maxSkipped {
		j.known = false
		return true
	}
	*j = jump{seq: s, known: true}
	return false
}
