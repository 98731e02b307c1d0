package raknet

import (
	"time"

	"tidegate/codec"
)

// A go-raknet server sends its second reply once. If that is lost, the server keeps half of a connection. It then
// receives everything from the client's address and answers nothing
// (docs/protocols/raknet/join.md#a-lost-second-reply). Only another address helps.

// grantPatience is how long the answer to the first second request may take before the client is stranded. A stock
// server answers each repeated request. Its answer therefore gets about ten chances.
const grantPatience = 2 * time.Second

// strand records a client's wait for its grant.
type strand struct {
	at      time.Duration // from when on the client is stranded; 0: it has not asked for the grant yet
	why     codec.Stranding
	redials uint8
	back    bool // the server knows the client by its first address, which it uses again
}

var _ codec.Redialer = (*Conn)(nil)

// Stranded implements codec.Redialer.
func (c *Conn) Stranded() codec.Stranding {
	if c.attempt == nil {
		return codec.NotStranded
	}
	return c.attempt.strand.why
}

// Redial implements codec.Redialer.
func (c *Conn) Redial(now time.Time, from codec.Addresser) {
	a := c.attempt
	if a == nil {
		return
	}
	a.strand = strand{redials: a.strand.redials + 1, back: a.strand.why == codec.KnownByEarlier}
	a.from, a.replied, a.requests = from, false, 0
	c.ask(now.Sub(c.start))
}

// expect records that the server has been asked for its grant.
func (s *strand) expect(now time.Duration) {
	if s.at == 0 && !s.back {
		s.at = now + grantPatience
	}
}

// answered records that the server has answered, and is asked again.
func (s *strand) answered() { s.at = 0 }

// hearsOnline handles a datagram of the reliability layer. Only a server with a connection sends such a datagram. Its
// reply may be late, and the datagram may be forged. Therefore the datagram only shortens the wait.
func (c *Conn) hearsOnline(now time.Duration) {
	if s := &c.attempt.strand; s.at != 0 && s.why == codec.NotStranded {
		s.at = min(s.at, now+c.sender.rtt.timeout())
	}
}

// advance checks whether the wait is over.
func (s *strand) advance(now time.Duration) {
	if s.at != 0 && now >= s.at && s.why == codec.NotStranded {
		s.why = codec.Unanswered
	}
}

// next returns when advance has work.
func (s *strand) next() (at time.Duration, ok bool) {
	return s.at, s.at != 0 && s.why == codec.NotStranded
}

// known handles the refusal of a client that is connected already. It reports whether that is the client itself, under
// its earlier address.
func (s *strand) known() bool {
	if s.redials == 0 || s.back {
		return false
	}
	s.why = codec.KnownByEarlier
	return true
}
