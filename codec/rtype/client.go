package rtype

import (
	"bytes"
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
)

// client is the side of a connection that faces a server.
type client struct {
	link      `cbor:"-"`
	gather    gather         `cbor:"3,keyasint,omitempty"`
	hellos    int            `cbor:"1,keyasint,omitempty"`
	nextHello time.Time      `cbor:"2,keyasint,omitempty"`
	helloDue  bool           `cbor:"7,keyasint,omitempty"`
	pongDue   bool           `cbor:"8,keyasint,omitempty"`
	lobby     clientLobby    `record:"inline"` // for the last game
	server    netip.AddrPort // zero after Restore
	odd       bool           `cbor:"9,keyasint,omitempty"`  // the server has sent instructions, and no names yet
	held      bool           `cbor:"10,keyasint,omitempty"` // as in Hello
	frames    bool           `cbor:"11,keyasint,omitempty"` // the server has ended a frame, as it does many times a second
}

func dial(o *Options, now time.Time) *client {
	c := &client{link: newLink(o, now)}
	c.sendHello(now)
	return c
}

// Admit does nothing: only a server's side admits.
func (c *client) Admit(time.Time, uint16) {}

// sendHello sends Hello, or gives up a server that has not answered.
func (c *client) sendHello(now time.Time) {
	if c.hellos == c.options.MaxHellos {
		c.nextHello = time.Time{}
		switch {
		case c.state != opening:
		case c.odd:
			c.lose(codec.Incompatible)
		default:
			c.lose(codec.NoConnection)
		}
		return
	}
	c.hellos++
	c.helloDue = c.lobby.startedAt.IsZero()
	c.nextHello = now.Add(c.options.HelloInterval)
}

// Send queues a canonical message: a key or an update. It returns ErrFull also while the automatic dialect does not
// know the width of an update's entity.
func (c *client) Send(now time.Time, m codec.Message) error {
	if err := c.check(&m); err != nil {
		return err
	}
	if err := c.send(m.Payload); err != nil {
		return err
	}
	c.answer(now, m.Receipt)
	return nil
}

func (c *client) send(payload []byte) error {
	if len(payload) == 1 {
		return c.sendKey(payload[0])
	}
	if c.format.width == 0 && c.format.era != Early {
		return codec.ErrFull // a guess could name another entity; the server's first instruction shows the width
	}
	var in instruction
	if c.format.document || in.parseAlone(payload, &canonical, c.sizes) != nil || in.op != update {
		return errNoForm
	}
	return c.put(&in)
}

func (c *client) sendKey(key byte) error {
	switch {
	case !c.format.hasKeys() || key > maxKey:
		return errNoForm
	case !c.hasRoom(1):
		return codec.ErrFull
	}
	c.out.end(append(c.out.begin(), key), !c.format.document)
	return nil
}

// Advance does the work that is due: time-outs and Hellos.
func (c *client) Advance(now time.Time) {
	if c.state == closed {
		return
	}
	if c.state == connected && !now.Before(c.deadline()) {
		c.lose(codec.TimedOut)
		return
	}
	if next := c.helloAt(); !next.IsZero() && !now.Before(next) {
		c.sendHello(now)
	}
}

// Stats returns the connection's figures so far.
func (c *client) Stats() codec.Stats {
	stats := c.link.Stats()
	if c.state != closed {
		stats.Held = c.gather.held
	}
	return stats
}

var _ codec.Holder = (*client)(nil)

// Release implements codec.Holder. Names of components are not collected any more.
func (c *client) Release() {
	c.gather.Names, c.gather.held, c.gather.full = nil, 0, true
}

// frameTimeout is the silence of a server that ends frames, 58 times a second, after which it is lost for a client that
// is kept for it. Another client waits as the game's own does.
const frameTimeout = 4 * time.Second

// deadline returns when the server's silence ends the session.
func (c *client) deadline() time.Time {
	if c.held && c.frames {
		return c.heard.Add(min(frameTimeout, c.options.ServerTimeout))
	}
	return c.heard.Add(c.options.ServerTimeout)
}

// helloAt returns when the next Hello is due. Hellos repeat until the server answers, and while a part of its
// initialisation is missing.
func (c *client) helloAt() time.Time {
	if c.state == opening || c.gather.begun() || c.mayBeLast() && !c.initial.known() {
		return c.nextHello
	}
	return time.Time{}
}

// NextTimeout returns when Advance has work again, or Poll a receipt.
func (c *client) NextTimeout() time.Time {
	if c.state == closed {
		return time.Time{}
	}
	next := c.helloAt()
	if c.state == connected {
		next = codec.Earliest(next, c.deadline())
	}
	if c.events.Len() > 0 {
		next = codec.Earliest(next, c.answerAt)
	}
	return next
}

// Transmit appends the next datagram to b.
func (c *client) Transmit(_ time.Time, b []byte) ([]byte, bool) {
	ok := true
	switch {
	case c.state != closed && c.helloDue:
		c.helloDue = false
		b = append(b, c.hello()...)
	case c.state != closed && c.pongDue:
		c.pongDue = false
		b = append(b, pong...)
	case c.state != closed && c.lobby.due():
		b = c.lobby.transmit(b)
	case c.state == opening:
		ok = false
	default:
		b, ok = c.out.next(b)
	}
	if ok {
		c.stats.Sent++
	}
	return b, ok
}

// Close ends the session. A client has no goodbye: the server notices that its pings get no answer.
func (c *client) Close(_ time.Time, why codec.Goodbye) {
	if c.state != closed {
		c.finish(why.Reason)
	}
}

// maxRefusals bounds the refused components that wait to be sent. The server names the others again.
const maxRefusals = 16

// clientLobby is a client's handshake in the last game. It ignores no component that it can have. So it starts as soon
// as it knows all components, and is connected by the first instruction. After that it sends no hello. A hello would
// put the client back into the lobby, and the server would make another entity for it.
type clientLobby struct {
	refusals  [maxRefusals]uint16
	refused   int       // number of waiting refusals
	startDue  bool      `cbor:"5,keyasint,omitempty"`
	startedAt time.Time `cbor:"6,keyasint,omitempty"` // zero: not started
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
		if c.lobby.refused < maxRefusals {
			c.lobby.refusals[c.lobby.refused] = index // tells the server that the client ignores the component
			c.lobby.refused++
		}
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
