package rtype

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// maxRefusals bounds the components that a client has yet to say it ignores. The server names them again.
const maxRefusals = 16

// clientLobby is a client's way into the last game. It ignores no component that it can have, so that it starts as soon
// as it knows all, and is connected with the first instruction. It says no hello after that: the server would put it
// back into the lobby, and make another entity for it as it starts again.
type clientLobby struct {
	refusals  [maxRefusals]uint16
	refused   int // how many refusals wait
	startDue  bool
	startedAt time.Time // zero: not yet
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

// mayBeLast reports whether the server may turn out to be of the last game.
func (c *client) mayBeLast() bool { return c.options.Dialect == Auto && c.format.era == AnyEra }

// hello is what opens a session. A server of the last game does not answer the others' hello: one that has been silent
// for half of the hellos is asked both ways in turn.
func (c *client) hello() []byte {
	if c.format.isFinal() || c.mayBeLast() && c.state == opening && c.hellos > c.options.MaxHellos/2 && c.hellos%2 == 1 {
		return lastHello
	}
	return c.options.Hello
}

// receiveLobby takes what only servers of the last game say: a component, or how many there are.
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
	c.gather.era = Final
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
		c.lobby.startDue, c.lobby.startedAt = true, now
	}
	return nil
}

// refuse has the server told that a component is of no use.
func (c *client) refuse(index uint16) {
	if c.lobby.refused < maxRefusals {
		c.lobby.refusals[c.lobby.refused] = index
		c.lobby.refused++
	}
}

// lobbyRepeats takes what was said before. A server that still counts has not heard that we start.
func (c *client) lobbyRepeats(now time.Time, d []byte) error {
	index := int(le.Uint16(d[1:]))
	if d[0] == nameOpcode && (index >= len(c.initial.names) || !bytes.Equal(d[3:], c.initial.names[index])) {
		return errNames
	}
	c.heard = now
	if d[0] == countOpcode && now.Sub(c.lobby.startedAt) >= c.options.HelloInterval {
		c.lobby.startDue, c.lobby.startedAt = true, now
	}
	return codec.ErrDuplicate
}
