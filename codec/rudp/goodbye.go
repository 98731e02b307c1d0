package rudp

import (
	"time"

	"tidegate/codec"
)

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
	seq  seq
	acks acks
	at   time.Time // when the session ends; zero: there is none
}

// hearGoodbye takes a goodbye in session. The peer's next packet may still have its number.
func (c *Conn) hearGoodbye(now time.Time, p *packet) {
	if c.goodbye.at.IsZero() {
		c.goodbye = goodbye{seq: p.seq, acks: p.acks}
		c.awaitSign(now)
	}
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

// isDue reports whether a goodbye is believed.
func (g *goodbye) isDue(now time.Time) bool { return !g.at.IsZero() && !now.Before(g.at) }

// jump is a packet that was too far ahead to count.
type jump struct {
	seq   seq
	known bool
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
