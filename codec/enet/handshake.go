package enet

import (
	"time"

	"tidegate/codec"
)

// maxVerifies bounds the VerifyConnects for each Connect of a client that has not proved its address. So such a client
// receives at most three times as much as it has sent.
const maxVerifies = 3

// handshake repeats a Connect or a VerifyConnect until the answer.
type handshake struct {
	due      bool
	nextAt   time.Time // zero: no repetition
	interval time.Duration
	asked    int       // received Connects
	sent     int       // transmissions of ours
	attempts []attempt // the first maxAttempts
}

// maxAttempts bounds the attempts that a handshake remembers, and the VerifyConnects of a server.
const maxAttempts = 12

// attempt is one transmission of a Connect or a VerifyConnect. The peer echoes its clock.
type attempt struct {
	clock uint16
	at    time.Time
}

func (h *handshake) advance(now time.Time, c *Conn) {
	if h.nextAt.IsZero() || now.Before(h.nextAt) {
		return
	}
	h.due = !c.server || h.maySend()
	h.interval = min(2*h.interval, latestAttempt)
	h.nextAt = now.Add(h.interval)
}

// begin makes the first attempt due.
func (h *handshake) begin(now time.Time) {
	h.due, h.interval, h.nextAt = true, firstAttempt, now.Add(firstAttempt)
}

// end stops repetitions.
func (h *handshake) end() { *h = handshake{} }

func (h *handshake) maySend() bool { return h.sent < min(maxVerifies*h.asked, maxAttempts) }

// wrote records an attempt.
func (h *handshake) wrote(now time.Time, clock uint16) {
	h.due = false
	if h.sent++; h.sent <= maxAttempts {
		h.attempts = append(h.attempts, attempt{clock, now})
	}
}

// echoes returns the attempt with the clock that a client has echoed.
func (h *handshake) echoes(clock uint16) (at time.Time, ok bool) {
	for _, sent := range h.attempts {
		if sent.clock == clock {
			return sent.at, true
		}
	}
	return time.Time{}, false
}

// accept makes the connection the server's side for a client's Connect. docs/protocols/enet.md#handshake
func (c *Conn) accept(asks *request) *Conn {
	c.server, c.summed, c.packs, c.state, c.terms = true, asks.summed, asks.packed, asked, asks.connect
	c.in.guesses = !c.summed
	c.peer = asks.id & 0xfff
	c.sessionIn, c.sessionOut = c.secrets.Session&3, c.secrets.Session>>2&3
	c.mtu = min(max(int(min(asks.mtu, maxMTU)), minMTU), c.options.MTU)
	c.channels = min(int(asks.channels), c.options.Channels)
	c.window = windowOf(asks.in)
	c.throttle.terms = asks.throttle
	c.peerControl = c.options.base + 1
	c.handshake.asked = 1
	c.stats.Received = 1
	c.events.Push(codec.Event{Kind: codec.Asked, Message: codec.Message{Payload: dataBytes(asks.data)}})
	return c
}

// Admit sends a VerifyConnect. Its acknowledgement starts the connection.
func (c *Conn) Admit(now time.Time, _ uint16) {
	if c.state != asked {
		return
	}
	c.state, c.deadline = admitted, now.Add(c.options.DialTimeout)
	c.control.number(1)
	c.handshake.begin(now)
}

// receiveConnect handles a repeated Connect. It extends the client's wait, and may provoke another VerifyConnect.
func (c *Conn) receiveConnect(now time.Time, d []byte) error {
	asks, ok := c.options.parseConnect(d)
	isSeeded := c.options.Seed != [32]byte{} // else all clients have the same ID
	switch {
	case !ok || !c.server:
		return codec.ErrUnexpected
	case asks.connectID != c.terms.connectID && isSeeded && c.state >= admitted:
		return c.invite(now, &asks)
	case asks.connectID != c.terms.connectID || asks.summed != c.summed:
		return codec.ErrUnexpected
	}
	switch c.state {
	case asked:
		c.deadline = now.Add(c.options.DialTimeout)
		c.handshake.asked++
	case admitted:
		c.handshake.asked++
		c.handshake.due = c.handshake.maySend()
	}
	return codec.ErrDuplicate
}

// receiveProof handles a client's acknowledgement of our VerifyConnect. It must hold a time that we have sent.
func (c *Conn) receiveProof(now time.Time, cmd *command) error {
	if cmd.kind != kindAck || cmd.channel != controlChannel || be.Uint16(cmd.body) != c.control.Reliable {
		return codec.ErrUnexpected
	}
	at, ok := c.handshake.echoes(be.Uint16(cmd.body[2:]))
	if !ok {
		return codec.ErrUnexpected
	}
	c.control.reset(c.control.Reliable)
	c.open(now)
	c.evident = true
	c.rtt.sample(now.Sub(at))
	c.events.Push(codec.Event{Kind: codec.Connected})
	return nil
}

// open starts the connection proper.
func (c *Conn) open(now time.Time) {
	c.state, c.deadline = connected, time.Time{}
	c.pingDue, c.proofDue = !c.server, c.proving // so that the server learns of the connection at once
	c.heard, c.answered = now, now
	c.handshake.end()
}

// dial makes the connection the client's side of a new one. docs/protocols/enet.md#handshake
func (c *Conn) dial(hello codec.Hello) *Conn {
	c.summed, c.packs = c.options.Checksums == ChecksumsOn, c.options.Compression == CompressionRange
	c.in.guesses = !c.summed
	c.tentative = hello.Tentative
	c.terms = connect{
		id: c.secrets.ID, incoming: 0xff, outgoing: 0xff, mtu: uint32(c.mtu), window: maxWindow,
		channels: uint32(c.options.Channels), throttle: defaultThrottle, connectID: c.secrets.ConnectID,
		data: dataOf(hello.Data),
	}
	c.control.number(1)
	c.control.reset(c.control.Reliable)
	c.peerControl = c.options.base
	c.handshake.begin(c.epoch)
	return c
}

// receiveVerify handles a server's VerifyConnect. The repeated fields of our Connect show that the server has read it.
func (c *Conn) receiveVerify(now time.Time, h *header, cmd *command) error {
	if cmd.kind != kindVerify || cmd.channel != controlChannel || !h.timed {
		return codec.ErrUnexpected
	}
	var v connect
	v.parse(cmd.body)
	if v.connectID != c.terms.connectID || v.throttle != c.terms.throttle || v.channels < 1 || v.channels > maxChannels {
		return codec.ErrUnexpected
	}
	c.peer, c.evident = v.id&0xfff, true
	c.sessionIn, c.sessionOut = v.incoming&3, v.outgoing&3
	c.mtu = min(max(int(min(v.mtu, maxMTU)), minMTU), c.options.MTU)
	c.channels = min(int(v.channels), c.options.Channels)
	c.window = min(windowOf(v.in), int(min(max(v.window, minWindow), maxWindow)))
	c.peerControl = cmd.seq
	c.peerClock.set(now, h.time)
	c.proof, c.proving = ack{Channel: cmd.channel, Seq: cmd.seq, Time: h.time}, true
	if c.handshake.sent == 1 {
		c.rtt.sample(now.Sub(c.handshake.attempts[0].at))
	}
	c.events.Push(codec.Event{Kind: codec.Connected})
	if c.tentative {
		c.handshake.end()
		c.state = verified
		return nil
	}
	c.open(now)
	return nil
}

// Confirm implements codec.Confirmer. It acknowledges VerifyConnect, so that the server's game learns of the client.
func (c *Conn) Confirm(now time.Time) {
	c.tentative = false
	if c.state == verified {
		c.open(now)
	}
}
