package rtype

import (
	"bytes"
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
)

// maxRefusals bounds the refused components that wait to be sent. The server names the others again.
const maxRefusals = 16

// clientLobby is a client's handshake in the last game. It ignores no component that it can have. So it starts as soon
// as it knows all components, and is connected by the first instruction. After that it sends no hello. A hello would
// put the client back into the lobby, and the server would make another entity for it.
type clientLobby struct {
	refusals  [maxRefusals]uint16
	refused   int // number of waiting refusals
	startDue  bool
	startedAt time.Time // zero: not started
}

func (l *clientLobby) due() bool { return l.refused > 0 || l.startDue }

// transmit appends the next datagram.
func (l *clientLobby) transmit(b []byte) []byte {
	if l.refused > 0 {
		l.refused--
		return le.AppendUint16(append(b, ignoreOpcode), l.refusals[l.refused])
	}
	l.startDue = false
	return append(b, startOpcode)
}

// mayBeLast reports whether the server may still be one of the last game.
func (c *client) mayBeLast() bool { return c.options.Dialect == Auto && c.format.era == AnyEra }

// hello returns the datagram that opens a session. A server of the last game does not answer the other dialects'
// hello. The client begins with the hello that the server has answered before. If a server has been silent for half of
// the hellos, or sends instructions without names, the client sends both kinds in turn.
func (c *client) hello() []byte {
	isOdd := c.hellos%2 == 1
	switch half := c.hellos > c.options.MaxHellos/2; {
	case c.format.isFinal():
		return lastHello
	case !c.mayBeLast() || c.state != opening || c.gather.begun():
	case isOdd && (half || c.options.last.has(c.server)), !isOdd && c.odd:
		return lastHello
	}
	return c.options.Hello
}

// maxServers bounds the servers that are known to be of the last game. Beyond it, all are forgotten.
const maxServers = 1024

// lastServers are servers of the last game. The zero value has none. It is safe for concurrent use.
type lastServers struct {
	set atomic.Pointer[map[netip.AddrPort]bool]
}

func (l *lastServers) has(server netip.AddrPort) bool {
	set := l.set.Load()
	return set != nil && (*set)[server]
}

// note records whether a server is of the last game.
func (l *lastServers) note(server netip.AddrPort, isLast bool) {
	if !server.IsValid() || l.has(server) == isLast {
		return
	}
	next := make(map[netip.AddrPort]bool)
	if set := l.set.Load(); set != nil && len(*set) < maxServers {
		maps.Copy(next, *set)
	}
	if delete(next, server); isLast {
		next[server] = true
	}
	l.set.Store(&next) // one of two loops may win: the other asks once more
}

// receiveLobby handles the messages that only servers of the last game send: a component, or the number of components.
func (c *client) receiveLobby(now time.Time, d []byte) error {
	index := le.Uint16(d[1:])
	switch {
	case d[0] == countOpcode && len(d) != 3, d[0] == nameOpcode && !isName(d[3:]):
		return errNames
	case d[0] == nameOpcode && index >= maxComponents:
		c.heard = now
		c.refuse(index)
		return nil
	case c.initial.known():
		return c.lobbyRepeats(now, d)
	}
	c.gather.Era = Final
	if !c.gather.take(d) {
		return codec.ErrDuplicate
	}
	c.heard = now
	if n, done := c.gather.done(); done {
		c.announce(n)
		c.gather = gather{}
		if c.state == connected {
			c.report()
		}
		c.options.last.note(c.server, true)
		c.lobby.startDue, c.lobby.startedAt = true, now
	}
	return nil
}

// refuse queues the message that the client ignores a component.
func (c *client) refuse(index uint16) {
	if c.lobby.refused < maxRefusals {
		c.lobby.refusals[c.lobby.refused] = index
		c.lobby.refused++
	}
}

// lobbyRepeats handles a repeated message. A server that still sends the count has not received our start.
func (c *client) lobbyRepeats(now time.Time, d []byte) error {
	index := int(le.Uint16(d[1:]))
	if d[0] == nameOpcode && (index >= len(c.initial.Names) || !bytes.Equal(d[3:], c.initial.Names[index])) {
		return errNames
	}
	c.heard = now
	if d[0] == countOpcode && now.Sub(c.lobby.startedAt) >= c.options.HelloInterval {
		c.lobby.startDue, c.lobby.startedAt = true, now
	}
	return codec.ErrDuplicate
}
