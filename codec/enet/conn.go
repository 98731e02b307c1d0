package enet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// state is how far a connection has come.
type state uint8

const (
	dialing       state = iota // client: Connect is sent
	verified                   // client: VerifyConnect has arrived, and Confirm has not been called yet
	asked                      // server: the proxy is deciding
	admitted                   // server: VerifyConnect is sent, the client has not acknowledged it yet
	connected                  // both sides may send
	flushing                   // Close: reliable messages are still sent
	disconnecting              // a Disconnect waits for its acknowledgement
	closed
)

// Times of a connection.
const (
	pingInterval      = 500 * time.Millisecond // without an acknowledgement
	flushTimeout      = 5 * time.Second        // for reliable messages after Close
	disconnectTimeout = 3 * time.Second        // for a Disconnect's acknowledgement
	firstAttempt      = 500 * time.Millisecond // before a Connect or a VerifyConnect is repeated
	latestAttempt     = 2 * time.Second        // between further repetitions of a client
)

// Conn is one side of one connection. Each concern of the protocol is a type of its own; Conn conducts them.
type Conn struct {
	options *Options
	server  bool  `cbor:"3,keyasint,omitempty"`
	summed  bool  `cbor:"4,keyasint,omitempty"`
	packs   bool  `cbor:"43,keyasint,omitempty"` // the peer understands compressed datagrams
	evident bool  // a command of the handshake that only the peer can know is in the present datagram
	state   state `cbor:"5,keyasint"`
	// tentative says that the acknowledgement of VerifyConnect waits for Confirm.
	tentative bool `cbor:"6,keyasint,omitempty"`
	// proof is a client's acknowledgement of VerifyConnect. The client sends it along with every repetition of a command,
	// until a message of the server shows that it has arrived.
	proof    ack     `cbor:"7,keyasint"`
	proving  bool    `cbor:"8,keyasint,omitempty"`
	proofDue bool    `cbor:"9,keyasint,omitempty"`
	secrets  secrets `cbor:"10,keyasint" secret:"true"`
	terms    connect // first the requested terms, then those in force

	peer          uint16    `cbor:"12,keyasint"` // the peer's own ID
	sessionIn     uint8     `cbor:"13,keyasint"`
	sessionOut    uint8     `cbor:"14,keyasint"`
	mtu           int       `cbor:"15,keyasint"`
	channels      int       `cbor:"16,keyasint"`
	window        int       `cbor:"17,keyasint"`
	epoch         time.Time `cbor:"18,keyasint"`
	handshake     handshake `cbor:"19,keyasint,omitempty"`
	deadline      time.Time `cbor:"20,keyasint,omitempty"` // of a handshake or a goodbye; zero: none
	heard         time.Time `cbor:"21,keyasint,omitempty"` // last valid datagram
	answered      time.Time `cbor:"22,keyasint,omitempty"` // last acknowledgement
	peerClock     peerClock `record:"inline"`
	control       outChannel
	peerControl   uint16 `cbor:"25,keyasint"` // newest control number of the peer
	out           outbox
	outChannels   []outChannel
	flight        flight
	in            inbox
	groupsIn      groups `cbor:"28,keyasint"`
	groupOut      uint16 `cbor:"29,keyasint"`
	acks          acks
	pressure      codec.Pressure `cbor:"39,keyasint,omitempty"` // on the peer
	mute          bool           `cbor:"41,keyasint,omitempty"` // as Reflect has said
	reflected     bool           `cbor:"42,keyasint,omitempty"` // as well
	rtt           rtt            `cbor:"31,keyasint"`
	whole         rtt            `cbor:"44,keyasint"` // the same in whole milliseconds, for the throttle
	throttle      throttle       `cbor:"32,keyasint"`
	why           codec.Reason   `cbor:"33,keyasint,omitempty"` // of our own goodbye
	goodbye       uint32         `cbor:"34,keyasint,omitempty"` // data of our own goodbye
	farewell      goodbye        `cbor:"38,keyasint,omitempty"` // the peer's
	heirs         heirs
	giant         giant
	pingDue       bool   `cbor:"35,keyasint,omitempty"`
	disconnectDue bool   `cbor:"36,keyasint,omitempty"`
	refusal       []byte // a last datagram that waits for Transmit

	events events.Queue
	stats  codec.Stats `cbor:"37,keyasint"`
}

var _ codec.Confirmer = (*Conn)(nil)

// newConn makes a connection that does not know its peer yet.
func newConn(o *Options, now time.Time, s secrets) *Conn {
	c := &Conn{
		options: o, secrets: s, epoch: now, mtu: o.MTU, rtt: newRTT(), throttle: newThrottle(defaultThrottle),
		window: maxWindow, groupOut: o.base, deadline: now.Add(o.DialTimeout),
	}
	c.control.reset(o.base)
	c.in = inbox{events: &c.events, base: o.base, follows: o.follows, largest: o.MaxMessage}
	c.out.most = o.MaxQueued / 2
	c.groupsIn.newest = o.base
	return c
}

// clock returns our clock as in datagrams.
func (c *Conn) clock(now time.Time) uint16 {
	return uint16(now.Sub(c.epoch).Milliseconds()) + c.secrets.Clock
}

// Poll returns the next event.
func (c *Conn) Poll() (codec.Event, bool) { return c.events.Poll() }

// Advance does the work that is due: repetitions, pings, and time-outs of a handshake, a silent peer or a goodbye.
func (c *Conn) Advance(now time.Time) {
	c.in.recycle()
	switch {
	case c.state == closed:
		return
	case c.in.held+c.in.heldNext > 0:
		c.stats.Dropped += uint64(c.in.expire(now.Sub(c.epoch), max(unfinishedPatience, 2*c.options.Timeout)))
	}
	switch {
	case !c.deadline.IsZero() && !now.Before(c.deadline):
		c.expire()
		return
	}
	c.handshake.advance(now, c)
	c.heirs.advance(now)
	if !c.flight.nextAt.IsZero() && !now.Before(c.flight.nextAt) {
		expired, gone := c.flight.expire(now, c.heard, c.answered, c.patience())
		c.stats.Lost += uint64(expired)
		c.proofDue = c.proving && expired > 0
		switch {
		case gone && !c.farewell.heard.IsZero(): // so it has left
			c.endByPeer(c.farewell.data)
			return
		case gone:
			c.end(codec.TimedOut, 0)
			return
		}
	}
	if at := c.pingAt(); !at.IsZero() && !now.Before(at) {
		c.pingDue = true
		c.in.free, c.out.free = nil, nil // the game is silent
	}
	c.stepGoodbye(now)
}

// NextTimeout returns when Advance has work again.
func (c *Conn) NextTimeout() time.Time {
	if c.state == closed {
		return time.Time{}
	}
	next := c.deadline
	for _, at := range [...]time.Time{
		c.handshake.nextAt, c.flight.nextAt, c.pingAt(), c.farewell.next(), c.heldAcksAt(), c.heirs.next(),
	} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// pingAt returns when to ping the peer, if no other command waits for its acknowledgement. Zero: not now.
func (c *Conn) pingAt() time.Time {
	if c.state != connected || c.flight.count() > 0 || c.pingDue {
		return time.Time{}
	}
	return c.answered.Add(pingInterval)
}

// Stats returns the connection's figures so far. Lost counts expired commands and unreliable messages that the
// throttle drops.
func (c *Conn) Stats() codec.Stats {
	s := c.stats
	if c.rtt.Known {
		s.RTT = c.rtt.Mean
	}
	s.Queued, s.Held = c.out.bytes, c.in.held+c.in.heldNext
	return s
}

// Announce returns ErrMode, because the protocol has no announcements.
func (c *Conn) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// Send queues a message. A channel that the peer does not have becomes channel 0.
func (c *Conn) Send(_ time.Time, m codec.Message) error {
	switch {
	case c.state >= flushing:
		return codec.ErrClosed
	case !modes.Has(m.Mode) || int(m.Channel) >= maxChannels:
		return codec.ErrMode
	case len(m.Payload) > c.options.maxPayload(m.Mode):
		return codec.ErrTooLarge
	case c.out.counted()+min(len(m.Payload), c.out.most) > c.options.MaxQueued || c.out.count == maxMessages:
		return codec.ErrFull
	}
	c.out.add(&m)
	return nil
}

// Close says goodbye when all reliable messages are acknowledged and early messages have been delivered. Before the
// client has proved its address, Close refuses it. Disconnected follows when the goodbye is acknowledged, or given up
// after 3 s. Until then messages may still arrive.
func (c *Conn) Close(now time.Time, why codec.Goodbye) {
	if c.state >= flushing {
		return
	}
	c.in.recycle()
	c.why, c.goodbye = why.Reason, dataOf(why.Data)
	switch c.state {
	case dialing:
		c.end(why.Reason, 0)
	case verified:
		c.refusal = c.appendDisconnectNow(nil)
		c.end(why.Reason, 0)
	case asked, admitted:
		c.refusal = appendRefusal(nil, &c.terms, c.summed, c.goodbye)
		c.end(why.Reason, 0)
	default:
		if why.Deaf {
			c.refusal = c.appendDisconnectNow(nil)
			c.end(why.Reason, 0)
			return
		}
		c.state, c.deadline = flushing, now.Add(flushTimeout)
		c.disconnect(now)
	}
}

// disconnect says goodbye if no message has to precede it.
func (c *Conn) disconnect(now time.Time) {
	if c.state == flushing && c.out.reliable.len() == 0 && c.flight.messages == 0 && c.in.early == 0 {
		c.state, c.disconnectDue, c.deadline = disconnecting, true, now.Add(disconnectTimeout)
		c.pingDue, c.proofDue = false, c.proving
	}
}

// expire ends a handshake or goodbye that has taken too long.
func (c *Conn) expire() {
	switch c.state {
	case dialing:
		c.end(codec.NoConnection, 0)
	case flushing, disconnecting:
		if c.state == flushing {
			// The peer may still read a goodbye, though it has not acknowledged earlier commands.
			c.refusal = c.appendDisconnectNow(nil)
		}
		c.end(c.why, 0)
	default:
		c.end(codec.TimedOut, 0)
	}
}

// end answers all receipts and reports the end. data is the peer's goodbye.
func (c *Conn) end(reason codec.Reason, data uint32) {
	c.state, c.farewell = closed, goodbye{}
	for _, l := range [...]*commandList{&c.flight.waiting, &c.flight.resend} {
		for s := l.head; s != nil; s = s.next {
			c.lose(s.message)
		}
	}
	for _, q := range [...]*fifo{&c.out.reliable, &c.out.unreliable} {
		for q.len() > 0 {
			c.lose(q.first())
			q.pop()
		}
	}
	c.out, c.flight, c.outChannels = outbox{}, flight{}, nil
	c.in.clear()
	c.handshake.end()
	c.heirs.list = nil
	c.pingDue, c.disconnectDue = false, false
	c.events.Push(codec.Event{
		Kind: codec.Disconnected, Reason: reason, Message: codec.Message{Payload: dataBytes(data)},
	})
}

// lose answers a message's receipt once, as lost.
func (c *Conn) lose(m *message) {
	if m != nil && m.Receipt != 0 {
		c.events.Answer(m.Receipt, false)
		m.Receipt = 0
	}
}
