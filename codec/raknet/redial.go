package raknet

import (
	"net/netip"
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
	// StrandAt is from when on the client is stranded. If 0, it has not asked for the grant yet.
	StrandAt  time.Duration   `cbor:"17,keyasint,omitempty"`
	StrandWhy codec.Stranding `cbor:"18,keyasint,omitempty"`
	Redials   uint8           `cbor:"19,keyasint,omitempty"`
	// Back says that the server knows the client by its first address, which it uses again.
	Back bool `cbor:"20,keyasint,omitempty"`
}

var _ codec.Redialer = (*Conn)(nil)

// Stranded implements codec.Redialer.
func (c *Conn) Stranded() codec.Stranding {
	if c.attempt == nil {
		return codec.NotStranded
	}
	return c.attempt.StrandWhy
}

// Redial implements codec.Redialer.
func (c *Conn) Redial(now time.Time, from codec.Addresser) {
	a := c.attempt
	if a == nil {
		return
	}
	a.strand = strand{Redials: a.Redials + 1, Back: a.StrandWhy == codec.KnownByEarlier}
	a.from, a.Replied, a.Requests = from, false, 0
	c.ask(now.Sub(c.start))
}

// hearsOnline handles a datagram of the reliability layer. Only a server with a connection sends such a datagram. Its
// reply may be late, and the datagram may be forged. Therefore the datagram only shortens the wait.
func (c *Conn) hearsOnline(now time.Duration) {
	if s := &c.attempt.strand; s.StrandAt != 0 && s.StrandWhy == codec.NotStranded {
		s.StrandAt = min(s.StrandAt, now+c.sender.RTT.timeout())
	}
}

// isKnown handles the refusal of a client that is connected already. It reports whether that is the client itself,
// under its earlier address.
func (s *strand) isKnown() bool {
	if s.Redials == 0 || s.Back {
		return false
	}
	s.StrandWhy = codec.KnownByEarlier
	return true
}

// This file holds the handshake of a proxy that asks its server before our server side sends the second reply
// (docs/protocols/raknet/join.md#the-servers-answer-first).

var (
	_ codec.Granter    = (*Protocol)(nil)
	_ codec.Deferrer   = (*Conn)(nil)
	_ codec.Introducer = (*Conn)(nil)
)

// DialAhead implements codec.Granter. The connection request, which carries the password, waits for Introduce.
func (p *Protocol) DialAhead(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Introducer {
	c := p.dial(now, to, hello)
	c.ahead = true
	return c
}

// Introduce implements codec.Introducer.
func (c *Conn) Introduce(now time.Time, hello codec.Hello) {
	if !c.ahead || c.phase > waiting {
		return
	}
	c.occupy()
	c.ahead = false
	c.asking.setPassword(hello)
	if c.phase == waiting {
		c.requestConnection(now.Sub(c.start))
	}
}

// wait stops a connection that was dialed ahead and is granted now. It sends nothing until Introduce. A stock server
// bans the address of a client whose first message is not a connection request.
func (c *Conn) wait() {
	c.phase = waiting
	c.events.Push(codec.Event{Kind: codec.Granted, Identity: c.server})
}

// Defer implements codec.Deferrer.
func (c *Conn) Defer() {
	if c.phase != halfOpen {
		return
	}
	c.memory.put(c.offline)
	c.phase, c.offline = deferred, nil
}

// Grant implements codec.Deferrer.
func (c *Conn) Grant(now time.Time, server uint64) {
	if c.phase != deferred {
		return
	}
	c.occupy()
	if server != 0 {
		c.server = server
	}
	c.phase = halfOpen
	c.grant(now.Sub(c.start))
}

// refuse ends a deferred connection. It sends the server's offline refusal if there is one, else
// CONNECTION_ATTEMPT_FAILED. A stock client reports the latter to its application when no server answers.
func (c *Conn) refuse(why codec.Goodbye) {
	by := serverIdentity{guid: why.Identity, version: why.Version}
	setDefault(&by.guid, c.server)
	id, ok := refusalID(why.Reason)
	if !ok || id == idInvalidPassword { // INVALID_PASSWORD is an online message
		id = idConnectionAttemptFailed
	}
	c.finish(why.Reason)
	c.offline = c.p.appendRefusal(nil, id, by)
}
