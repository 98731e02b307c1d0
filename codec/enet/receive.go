package enet

import (
	"time"

	"tidegate/codec"
)

// Receive takes one datagram. Commands before a malformed one count.
func (c *Conn) Receive(now time.Time, datagram []byte) error {
	c.in.recycle()
	c.in.now = now.Sub(c.epoch)
	return c.stats.Count(c.receive(now, datagram))
}

func (c *Conn) receive(now time.Time, d []byte) error {
	var h header
	rest, err := h.parse(d)
	switch {
	case err != nil:
		return err
	case c.state == closed:
		return codec.ErrUnexpected
	case h.peer == noPeer:
		return c.receiveConnect(now, d)
	case h.peer != c.secrets.ID && len(c.heirs.list) > 0:
		if n := c.heir(h.peer); n != nil {
			return c.hearHeir(now, n, &h, d, rest)
		}
		return codec.ErrUnexpected
	case h.peer != c.secrets.ID:
		return codec.ErrUnexpected
	case c.state == asked || c.state != dialing && h.session != c.sessionIn:
		return codec.ErrUnexpected
	}
	if rest, err = c.commandsOf(&h, d, rest); err != nil {
		return err
	}
	c.evident = false
	var first error
	for len(rest) > 0 && c.state != closed {
		var cmd command
		if rest, err = cmd.parse(rest); err == nil {
			err = c.receiveCommand(now, &h, &cmd)
		}
		if first == nil {
			first = err
		}
		if err != nil && err != codec.ErrDuplicate {
			break
		}
		c.heard = now
	}
	c.packs = c.packs || h.compressed && c.evident
	c.disconnect(now)
	return first
}

// commandsOf returns the commands of a datagram, without compression and checksum.
func (c *Conn) commandsOf(h *header, d, rest []byte) ([]byte, error) {
	at := len(d) - len(rest)
	body := at
	if c.summed {
		body += checksumLen
	}
	switch {
	case len(d) < body:
		return nil, codec.ErrMalformed
	case h.compressed && c.options.Compression == CompressionOff:
		return nil, codec.ErrCompressed
	case h.compressed:
		plain, ok := c.options.coders.unpack(c.in.copyOf(d[:body]), d[body:], c.mtu)
		c.in.lent = append(c.in.lent, plain)
		if d = plain; !ok {
			return nil, codec.ErrCompressed
		}
	}
	if c.summed && !checksumFits(d, at, c.terms.connectID[:]) {
		return nil, codec.ErrMalformed
	}
	return d[body:], nil
}

func (c *Conn) receiveCommand(now time.Time, h *header, cmd *command) error {
	switch {
	case cmd.wantsAck && !h.timed:
		return codec.ErrMalformed
	case cmd.kind == kindConnect:
		return codec.ErrUnexpected
	case (c.state == dialing || c.state == admitted) && cmd.kind == kindDisconnect:
		c.endByPeer(be.Uint32(cmd.body))
		return nil
	case c.state == dialing:
		return c.receiveVerify(now, h, cmd)
	case c.state == admitted:
		return c.receiveProof(now, cmd)
	case c.state == verified && cmd.kind == kindDisconnect:
		c.endByPeer(be.Uint32(cmd.body))
		return nil
	case cmd.kind == kindVerify && c.proving:
		c.proof.Time = h.time
		return codec.ErrDuplicate
	case c.state == verified:
		return codec.ErrUnexpected
	}
	c.proving, c.proofDue = false, false
	switch {
	case cmd.kind == kindAck:
		return c.receiveAck(now, cmd)
	case cmd.channel == controlChannel:
		return c.receiveControl(now, h, cmd)
	}
	return c.receiveMessage(now, h, cmd)
}

// maxControlGap is how far a peer's next control number can be ahead of its newest one.
const maxControlGap = 64

// receiveControl handles a command of the control channel. A ping or a setting is always acknowledged: a peer that
// waits in vain ends the session. A setting or a goodbye counts only if it is news.
func (c *Conn) receiveControl(now time.Time, h *header, cmd *command) error {
	gap := int(int16(cmd.seq - c.peerControl))
	isNews := c.isNews(now, h, gap)
	switch {
	case isNews:
		c.peerControl = cmd.seq
	case cmd.kind == kindDisconnect && gap > 0:
		return codec.ErrWindow
	case cmd.kind == kindDisconnect && c.farewell.heard.IsZero():
		return codec.ErrDuplicate
	case cmd.kind == kindDisconnect:
		return c.queueAck(h, cmd, codec.ErrDuplicate) // our acknowledgement was lost
	}
	switch {
	case cmd.kind == kindDisconnect:
		c.hearGoodbye(now, h, cmd)
		return nil
	case cmd.kind == kindBandwidth && isNews: // a late setting is out of date
		c.window = windowOf(be.Uint32(cmd.body))
	case cmd.kind == kindThrottle && isNews:
		c.throttle.terms.parse(cmd.body)
	case cmd.kind == kindPing, cmd.kind == kindBandwidth, cmd.kind == kindThrottle:
	default:
		return codec.ErrUnexpected
	}
	if c.state == disconnecting { // as the library: so the peer knows that we have left
		return nil
	}
	return c.queueAck(h, cmd, nil)
}

// isNews reports whether a control command may change the session. Its number must be beyond the newest one. Without a
// checksum that number and the time of its datagram must also be plausible: they are most of the secret that a forger
// lacks.
func (c *Conn) isNews(now time.Time, h *header, gap int) bool {
	return gap > 0 && (c.summed || gap <= maxControlGap && (!h.timed || c.peerClock.allows(now, h.time)))
}

// queueAck queues the acknowledgement of a command that wants one. ErrDuplicate wants it too: the first one was lost.
func (c *Conn) queueAck(h *header, cmd *command, err error) error {
	if err != nil && err != codec.ErrDuplicate {
		return err
	}
	switch {
	case !cmd.wantsAck || err != nil && c.isMute() && c.acks.has(cmd):
	case c.acks.len() == maxAcks:
		return codec.ErrLimit
	default:
		c.acks.add(c.in.now, cmd, h.time)
	}
	return err
}

// receiveMessage takes a message or a part of one.
func (c *Conn) receiveMessage(now time.Time, h *header, cmd *command) error {
	switch {
	case c.state == disconnecting: // as the library: so the peer knows that we have left
		return nil
	case int(cmd.channel) >= c.channels:
		return codec.ErrUnexpected
	case cmd.wantsAck && c.acks.len() == maxAcks:
		return codec.ErrLimit // the peer sends it again
	case len(cmd.payload) > c.options.MaxMessage:
		return codec.ErrLimit
	}
	switch cmd.kind {
	case kindReliable:
		return c.queueAck(h, cmd, c.in.takeReliable(cmd.channel, cmd.seq, cmd.payload))
	case kindUnreliable:
		m := unreliableMessage{Reliable: cmd.seq, Number: be.Uint16(cmd.body), Payload: cmd.payload}
		return c.queueAck(h, cmd, c.in.takeUnreliable(cmd.channel, m, false))
	case kindUnsequenced:
		if err := c.groupsIn.take(be.Uint16(cmd.body)); err != nil {
			return c.queueAck(h, cmd, err)
		}
		c.in.deliver(codec.Unreliable, cmd.channel, cmd.payload)
		return c.queueAck(h, cmd, nil)
	case kindFragment, kindUnreliableFragment:
		return c.queueAck(h, cmd, c.receiveFragment(now, cmd))
	}
	return codec.ErrUnexpected
}

func (c *Conn) receiveFragment(now time.Time, cmd *command) error {
	var f fragment
	if err := f.parse(cmd.body, len(cmd.payload)); err != nil {
		return err
	}
	if cmd.kind == kindUnreliableFragment {
		return c.in.takeUnreliableFragment(cmd.channel, cmd.seq, &f, cmd.payload)
	}
	if cmd.seq != f.start+uint16(f.index) {
		return codec.ErrMalformed
	}
	if f.count > maxParts || f.total > uint32(c.options.MaxMessage) {
		return c.refuseGiant(now, cmd.channel, &f)
	}
	return c.in.takeFragment(cmd.channel, &f, cmd.payload)
}

// receiveAck handles an acknowledgement. ErrDuplicate is one that matches no command in flight, or echoes a time at
// which the command was not under way.
func (c *Conn) receiveAck(now time.Time, cmd *command) error {
	channel := &c.control
	if cmd.channel != controlChannel {
		if int(cmd.channel) >= len(c.outChannels) {
			return codec.ErrDuplicate
		}
		channel = &c.outChannels[cmd.channel]
	}
	s := channel.find(be.Uint16(cmd.body))
	if s == nil || !c.mayEcho(now, s, be.Uint16(cmd.body[2:])) {
		return codec.ErrDuplicate
	}
	channel.leave(s)
	c.answered = now
	if be.Uint16(cmd.body[2:]) == s.clock { // not an earlier attempt
		c.farewell.doubt(s.sentAt)
		c.turnAway()
	}
	c.measure(now, s, be.Uint16(cmd.body[2:]))
	m, k := s.message, s.kind
	c.flight.acknowledged(s)
	switch {
	case k == kindDisconnect:
		c.end(c.why, 0)
	case m != nil:
		if m.Unacked--; m.Unacked == 0 {
			if m.Receipt != 0 {
				c.events.Answer(m.Receipt, true)
			}
			c.out.done(m)
		}
	}
	return nil
}

// mayEcho reports whether an acknowledgement echoes a time between a command's first transmission and now.
func (c *Conn) mayEcho(now time.Time, s *sentCommand, echoed uint16) bool {
	late := time.Duration(c.clock(now)-echoed) * time.Millisecond
	return late <= now.Sub(s.begun)+time.Millisecond
}

// measure takes a round trip from an acknowledgement that echoes the clock of a command's datagram.
func (c *Conn) measure(now time.Time, s *sentCommand, echoed uint16) {
	m := now.Sub(s.sentAt)
	if echoed != s.clock { // echo of an earlier attempt
		m = time.Duration(c.clock(now)-echoed) * time.Millisecond
	}
	c.rtt.sample(m, 1)
	c.throttle.sample(now, m, &c.whole)
}

// endByPeer ends a connection that the peer has left or refused.
func (c *Conn) endByPeer(data uint32) {
	reason := codec.Closed
	switch {
	case c.state >= flushing:
		reason = c.why
	case c.state == dialing && data != 0:
		reason = codec.RejectedCustom
	case c.state == dialing:
		reason = codec.Rejected
	case !c.server && data != 0:
		reason = codec.Kicked
	}
	c.end(reason, data)
}

// Sizes of a ring of early messages.
const (
	leastEarly = 8
	slotSize   = 40 // bytes
)

// ringCost returns the memory in bytes of a ring that counts as held. A channel keeps its smallest ring.
func ringCost(size int) int {
	if size <= leastEarly {
		return 0
	}
	return size * slotSize
}

// slot returns the place of an early number, which is at most maxAhead beyond the last delivered one. It returns nil
// if no more memory may be held.
func (in *inbox) slot(c *inChannel, seq uint16) *earlyMessage {
	need := int(seq - c.reliable)
	if need > len(c.early) {
		size := max(leastEarly, len(c.early))
		for size < need {
			size *= 2
		}
		more := ringCost(size) - ringCost(len(c.early))
		if !in.fits(more) {
			return nil
		}
		in.held += more
		grown := make([]earlyMessage, size)
		for i := 1; i <= len(c.early); i++ {
			n := c.reliable + uint16(i)
			grown[int(n)&(size-1)] = c.early[int(n)&(len(c.early)-1)]
		}
		c.early = grown
	}
	return &c.early[int(seq)&(len(c.early)-1)]
}

// shrink frees a large ring if no message in it is early.
func (in *inbox) shrink(c *inChannel) {
	if c.earlyCount == 0 && len(c.early) > leastEarly {
		in.held -= ringCost(len(c.early))
		c.early = nil
	}
}
