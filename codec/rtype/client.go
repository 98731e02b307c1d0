package rtype

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// client is the side of a connection that faces a server.
type client struct {
	link
	gather    gather
	hellos    int
	nextHello time.Time
	helloDue  bool
	pongDue   bool
	lobby     clientLobby    // for the last game
	server    netip.AddrPort // zero after Restore
	odd       bool           // the server has sent instructions, and no names yet
	held      bool           // as in Hello
	frames    bool           // the server has ended a frame, as it does many times a second
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
