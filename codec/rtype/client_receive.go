package rtype

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// Receive takes one datagram of the server.
func (c *client) Receive(now time.Time, datagram []byte) error {
	c.scratch = c.scratch[:0]
	return c.stats.Count(c.receive(now, datagram))
}

func (c *client) receive(now time.Time, d []byte) error {
	switch {
	case c.state == closed:
		return codec.ErrUnexpected
	case len(d) == 0:
		return errLength
	case bytes.Equal(d, ping):
		c.markHeard(now)
		c.pongDue = true
		return nil
	case isGoodbye(d):
		c.leave()
		return nil
	case c.format.isFinal() && len(d) >= 3 && (d[0] == nameOpcode || d[0] == countOpcode):
		return c.receiveLobby(now, d)
	case !c.initial.known():
		return c.receiveInitial(now, d)
	case c.format.document:
		return c.receiveStream(now, d)
	case c.initial.hasPart(d, c.format.era): // early servers repeat it after each message of a client
		c.markHeard(now)
		return codec.ErrDuplicate
	}
	return c.receiveAlone(now, d)
}

// leave ends the session or the attempt after the server's goodbye.
func (c *client) leave() {
	reason := codec.Kicked
	if c.state == opening {
		reason = codec.Rejected
	}
	c.lose(reason)
}

// receiveInitial handles a datagram while the names of the components are unknown. It may hold instructions, because
// parts of the initialisation may be late or lost.
func (c *client) receiveInitial(now time.Time, d []byte) error {
	if c.format.document || c.options.Dialect == Auto {
		if rest, ok := c.receiveNames(now, d); ok {
			return c.receiveStream(now, rest)
		}
	}
	if c.format.document {
		return c.receiveStream(now, d)
	}
	if c.mayBeLast() && isLastName(d) {
		c.format = formats[GameLast]
		return c.receiveLobby(now, d)
	}
	// A server of the last game sends its running game to everybody. Only 00 draws its names. The end of a frame looks
	// like a length.
	mayBeOdd := c.state == opening && c.mayBeLast() && !c.gather.begun()
	isFrame := len(d) == 1 && opcode(d[0]) == nextFrame
	if c.format.isFinal() || mayBeOdd && isFrame || !c.gather.take(d) {
		if mayBeOdd {
			return c.receiveOdd(isFrame)
		}
		return c.receiveAlone(now, d)
	}
	c.markHeard(now)
	if n, done := c.gather.done(); done {
		c.format.learn(format{era: c.gather.Era})
		c.announce(n)
		c.gather = gather{}
		c.options.last.note(c.server, false)
		c.report()
	}
	return nil
}

// receiveOdd handles an instruction before the names. The first frame is taken: the server does not count as silent.
func (c *client) receiveOdd(isFrame bool) error {
	c.odd = true
	switch {
	case isFrame && !c.frames:
		c.frames = true
		return nil
	case c.hellos > c.options.MaxHellos/2:
		return codec.ErrNoNames
	}
	return codec.ErrUnexpected
}

// receiveNames handles the document's initialisation, which also shows that the server speaks that dialect.
func (c *client) receiveNames(now time.Time, d []byte) (rest []byte, ok bool) {
	var n initialisation
	rest, err := n.parse(d)
	if err != nil {
		return nil, false
	}
	c.markHeard(now)
	c.format = formats[Document]
	c.announce(n)
	c.report()
	return rest, true
}

// report announces the known components and the known format.
func (c *client) report() {
	a := announcement{format: c.format, initial: c.initial}
	start := len(c.scratch)
	c.scratch = a.append(c.scratch)
	c.take(c.scratch[start:])
}

// receiveStream handles the instructions of one of the document's datagrams, up to the first malformed one.
func (c *client) receiveStream(now time.Time, d []byte) error {
	for len(d) > 0 {
		var in instruction
		rest, err := in.parse(d, &c.format, c.sizes)
		if err != nil {
			return err
		}
		c.markHeard(now)
		c.takeInstruction(&in, d[:len(d)-len(rest)])
		d = rest
	}
	return nil
}

// receiveAlone handles one of the game's instructions. The first may show the width of entities.
func (c *client) receiveAlone(now time.Time, d []byte) error {
	f := c.format
	if f.width == 0 {
		f.width = widthOf(d)
	}
	if f.width == 0 && (len(d) != 1 || opcode(d[0]) != nextFrame) {
		return errWidth
	}
	var in instruction
	if err := in.parseAlone(d, &f, c.sizes); err != nil {
		return err
	}
	c.markHeard(now)
	if f.width != c.format.width {
		c.format = f
		if c.initial.known() {
			c.report()
		}
	}
	c.frames = c.frames || in.op == nextFrame
	c.takeInstruction(&in, d)
	return nil
}

// markHeard records that the server is alive. The first time, this starts the session.
func (c *client) markHeard(now time.Time) {
	c.heard = now
	if c.state == opening {
		c.connect(now)
		if c.format.isFinal() && c.initial.known() {
			c.report()
		}
	}
}
