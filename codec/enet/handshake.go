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
	nextAt   time.Time     `cbor:"1,keyasint,omitempty"` // zero: no repetition
	interval time.Duration `cbor:"2,keyasint,omitempty"`
	asked    int           `cbor:"3,keyasint,omitempty"` // received Connects
	sent     int           `cbor:"4,keyasint,omitempty"` // transmissions of ours
	attempts []attempt     `cbor:"5,keyasint,omitempty"` // the first maxAttempts
}

// maxAttempts bounds the attempts that a handshake remembers, and the VerifyConnects of a server.
const maxAttempts = 12

// attempt is one transmission of a Connect or a VerifyConnect. The peer echoes its clock.
type attempt struct {
	_     struct{} `cbor:",toarray"`
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
		h.attempts = append(h.attempts, attempt{clock: clock, at: now})
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
	c.rtt.sample(now.Sub(at), 1)
	c.throttle.sample(now, now.Sub(at), &c.whole)
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
		c.rtt.sample(now.Sub(c.handshake.attempts[0].at), 1)
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

// connect is the body of a Connect. Without its last field it is that of a VerifyConnect:
//
//	0..1    the sender's own ID
//	2, 3    the client's incoming and outgoing session
//	4..7    MTU
//	8..11   window in bytes
//	12..15  channels
//	16..19  incoming bandwidth in bytes a second, 0 for no limit
//	20..23  outgoing bandwidth
//	24..35  throttle: interval in ms, acceleration, deceleration
//	36..39  connect ID, 4 opaque bytes
//	40..43  connect data, of a Connect only
type connect struct {
	id                    uint16
	incoming, outgoing    uint8
	mtu, window, channels uint32
	in, out               uint32
	throttle              throttleTerms
	connectID             [4]byte
	data                  uint32
}

const (
	verifyLen  = 40
	connectLen = verifyLen + 4
)

// parse reads a body of verifyLen or connectLen bytes.
func (c *connect) parse(b []byte) {
	c.id, c.incoming, c.outgoing = be.Uint16(b), b[2], b[3]
	c.mtu, c.window, c.channels = be.Uint32(b[4:]), be.Uint32(b[8:]), be.Uint32(b[12:])
	c.in, c.out = be.Uint32(b[16:]), be.Uint32(b[20:])
	c.throttle.parse(b[24:])
	copy(c.connectID[:], b[36:])
	if len(b) >= connectLen {
		c.data = be.Uint32(b[40:])
	}
}

// appendVerify appends the body of a VerifyConnect.
func (c *connect) appendVerify(b []byte) []byte {
	b = append(be.AppendUint16(b, c.id), c.incoming, c.outgoing)
	b = be.AppendUint32(be.AppendUint32(be.AppendUint32(b, c.mtu), c.window), c.channels)
	b = be.AppendUint32(be.AppendUint32(b, c.in), c.out)
	b = c.throttle.append(b)
	return append(b, c.connectID[:]...)
}

// append appends the body of a Connect.
func (c *connect) append(b []byte) []byte { return be.AppendUint32(c.appendVerify(b), c.data) }

// Bounds of a window, and the window of a peer without a bandwidth limit. docs/protocols/enet.md#window
const (
	minWindow   = 4096
	maxWindow   = 65536
	windowScale = 65536
)

// windowOf returns the window for a peer's incoming bandwidth.
func windowOf(bandwidth uint32) int {
	if bandwidth == 0 {
		return maxWindow
	}
	return min(max(int(bandwidth/windowScale)*minWindow, minWindow), maxWindow)
}

// dataOf returns the number that carries a hello's or a goodbye's data. Data of another size than 4 bytes does not
// fit.
func dataOf(data []byte) uint32 {
	if len(data) != 4 {
		return 0
	}
	return be.Uint32(data)
}

// dataBytes returns the data of an event. The wire has no difference between 0 and no data.
func dataBytes(v uint32) []byte {
	if v == 0 {
		return nil
	}
	return be.AppendUint32(nil, v)
}

// A session without checksums can be forged by guesses. So a goodbye in such a session needs evidence, see goodbye.
const (
	goodbyePing     = 150 * time.Millisecond // between two pings
	goodbyePatience = 600 * time.Millisecond // for an acknowledgement, beside two round trips
)

// goodbye is a peer's, which is not believed yet: the peer must be silent when it is pinged. The library acknowledges
// nothing after its goodbye but a goodbye.
type goodbye struct {
	heard  time.Time `cbor:"1,keyasint,omitempty"` // zero: there is none
	endAt  time.Time `cbor:"2,keyasint,omitempty"`
	pingAt time.Time `cbor:"3,keyasint,omitempty"`
	data   uint32    `cbor:"4,keyasint,omitempty"`
}

// hearGoodbye takes a goodbye in session. With checksums it ends the session.
func (c *Conn) hearGoodbye(now time.Time, h *header, cmd *command) {
	if cmd.wantsAck {
		c.acks.add(c.in.now, cmd, h.time)
	}
	data := be.Uint32(cmd.body)
	if c.summed || c.state != connected {
		c.endByPeer(data)
		return
	}
	c.farewell = goodbye{heard: now, data: data}
	c.awaitSign(now)
}

// awaitSign begins to wait for a sign of life.
func (c *Conn) awaitSign(now time.Time) {
	c.farewell.endAt, c.farewell.pingAt = now.Add(goodbyePatience+2*c.rtt.Mean), now.Add(goodbyePing)
}

// doubt forgets a goodbye of a peer that has acknowledged a command from after it.
func (g *goodbye) doubt(sentAt time.Time) {
	if !g.heard.IsZero() && sentAt.After(g.heard) {
		*g = goodbye{}
	}
}

// next returns when stepGoodbye has work; zero: never.
func (g *goodbye) next() time.Time { return codec.Earliest(g.pingAt, g.endAt) }

// stepGoodbye pings a peer that seems to have left, or believes its goodbye.
func (c *Conn) stepGoodbye(now time.Time) {
	g := &c.farewell
	switch {
	case g.heard.IsZero():
	case codec.IsLate(now, g.next()):
		c.awaitSign(now)
	case !now.Before(g.endAt):
		c.endByPeer(g.data)
	case !now.Before(g.pingAt):
		g.pingAt = now.Add(goodbyePing)
		c.pingDue = c.pingDue || c.state == connected
	}
}
