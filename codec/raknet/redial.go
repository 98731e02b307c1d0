package raknet

import (
	"time"

	"tidegate/codec"
)

// A go-raknet server sends its second reply once. When that is lost it keeps half of a connection, which takes all that
// the client's address says and answers none of it (docs/protocols/raknet.md#a-lost-second-reply). Only another address
// helps.

// grantPatience is how long the answer to the first second request may take before the client is stranded. Stock
// servers answer each request again, so that they get about ten tries.
const grantPatience = 2 * time.Second

// strand is what a client knows of a server that does not grant its connection.
type strand struct {
	at      time.Duration // from when on the client is stranded; 0: it has not asked for the grant yet
	why     codec.Stranding
	redials uint8
	back    bool // the server knows the client by its first address, which it has again
}

var _ codec.Redialer = (*Conn)(nil)

// Stranded implements codec.Redialer.
func (c *Conn) Stranded() codec.Stranding {
	if c.asking == nil {
		return codec.NotStranded
	}
	return c.asking.strand.why
}

// Redial implements codec.Redialer.
func (c *Conn) Redial(now time.Time, from codec.Addresser) {
	a := c.asking
	if a == nil {
		return
	}
	a.strand = strand{redials: a.strand.redials + 1, back: a.strand.why == codec.KnownByEarlier}
	a.from, a.replied, a.requests = from, false, 0
	c.ask(now.Sub(c.start))
}

// expect notes that the server has been asked for its grant.
func (s *strand) expect(now time.Duration) {
	if s.at == 0 && !s.back {
		s.at = now + grantPatience
	}
}

// answered notes that the server has answered, and is to be asked again.
func (s *strand) answered() { s.at = 0 }

// hearsOnline takes a datagram of the reliability layer, which only a server sends that has made a connection. Its
// reply may be late, and the datagram forged, so it only shortens the patience.
func (c *Conn) hearsOnline(now time.Duration) {
	if s := &c.asking.strand; s.at != 0 && s.why == codec.NotStranded {
		s.at = min(s.at, now+c.sender.rtt.timeout())
	}
}

// advance notes that patience is over.
func (s *strand) advance(now time.Duration) {
	if s.at != 0 && now >= s.at && s.why == codec.NotStranded {
		s.why = codec.Unanswered
	}
}

// next is when advance has something to do.
func (s *strand) next() (at time.Duration, ok bool) {
	return s.at, s.at != 0 && s.why == codec.NotStranded
}

// known takes the refusal of a client that is connected already, and reports whether that is the client itself, by an
// address from before.
func (s *strand) known() bool {
	if s.redials == 0 || s.back {
		return false
	}
	s.why = codec.KnownByEarlier
	return true
}
