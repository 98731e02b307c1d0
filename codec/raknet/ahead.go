package raknet

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

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
