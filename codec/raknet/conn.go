package raknet

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"time"

	"tidegate/codec"
)

var (
	errEmpty      = fmt.Errorf("raknet: empty message: %w", codec.ErrMode)
	errReservedID = fmt.Errorf("raknet: message begins with a byte below 0x1b, reserved for RakNet: %w", codec.ErrMode)
	errMessage    = fmt.Errorf("raknet: over max_message: %w", codec.ErrTooLarge)
	errParts      = fmt.Errorf("raknet: more parts for a server than max_parts: %w", codec.ErrTooLarge)
	errChannel    = fmt.Errorf("raknet: ordering channel above 31: %w", codec.ErrMode)
)

// reportDelay is how soon dropped messages are reported after Transmit, which makes no events.
const reportDelay = time.Millisecond

// phase says how far a connection has come.
type phase uint8

const (
	probing    phase = iota // client: asks for the connection with offline messages
	waiting                 // client, dialed ahead: waits for Introduce
	requesting              // client: sent CONNECTION_REQUEST
	deferred                // server: waits for Grant
	halfOpen                // server: waits for CONNECTION_REQUEST
	asked                   // server: waits for Admit
	admitted                // server: sent CONNECTION_REQUEST_ACCEPTED
	accepted                // client: holds NEW_INCOMING_CONNECTION back (tentative)
	connected
	closing // waits for the peer to acknowledge our goodbye
	closed
)

// Conn is one side of a RakNet connection. sender and receiver are its two halves. The handshakes, the keep-alive and
// the shutdown have their own files. Conn only conducts them. It is not safe for concurrent use.
//
// Internal times are durations since the Conn was made. What each message needs comes first: it shares cache lines.
type Conn struct {
	*workspace // noWorkspace while nothing is under way
	p          *Protocol
	start      time.Time      `cbor:"4,keyasint"`
	phase      phase          `cbor:"5,keyasint"`
	dialed     bool           `cbor:"6,keyasint,omitempty"`  // we are the client
	mute       bool           `cbor:"33,keyasint,omitempty"` // as Reflect has said
	pressure   codec.Pressure `cbor:"13,keyasint,omitempty"` // on the peer
	wrote      bool           // data was sent since Transmit last had none
	sent       uint64         `cbor:"28,keyasint,omitempty"` // as in codec.Stats
	received   uint64         `cbor:"29,keyasint,omitempty"`
	reportAt   time.Duration  `cbor:"23,keyasint,omitempty"` // when messages dropped by Transmit are reported
	offline    []byte         // offline message or final datagram to be sent next; a later one replaces it
	attempt    *attempt       // client: until the connection is granted
	goodbye    goodbye        `cbor:"20,keyasint,omitempty"`
	shutdown   shutdown       `cbor:"19,keyasint,omitempty"`
	keepalive  keepalive      `cbor:"24,keyasint"`
	sender     sender
	receiver   receiver

	peer netip.AddrPort `cbor:"3,keyasint"`
	// tentative says that the client's NEW_INCOMING_CONNECTION waits for Confirm.
	tentative bool          `cbor:"7,keyasint,omitempty"`
	ahead     bool          `cbor:"8,keyasint,omitempty"`                // client: Introduce has not been called yet
	family    family        `cbor:"9,keyasint,omitempty"`                // of IPv6 addresses, in the peer's form
	guid      uint64        `cbor:"10,keyasint" secret:"true"`           // the client's GUID
	server    uint64        `cbor:"11,keyasint,omitempty" secret:"true"` // the server's GUID, as sent to the client
	version   uint8         `cbor:"32,keyasint,omitempty"`               // server: the client's
	longList  bool          `cbor:"12,keyasint,omitempty"`               // the handshake lists 20 addresses, not 10
	round     uint8         `cbor:"14,keyasint,omitempty"`               // server: of the cookie of the connection
	askedAt   uint64        `cbor:"16,keyasint,omitempty"`               // the peer's time in its request or acceptance
	upSince   time.Duration `cbor:"17,keyasint,omitempty"`               // since it is connected, or a server's last grant
	pongDue   time.Duration `cbor:"18,keyasint,omitempty"`               // server: pings before this time get no answer
	clock     peerClock
	quirks    quirks `record:"inline"`
}

var (
	_ codec.Confirmer = (*Conn)(nil)
	_ codec.Identity  = (*Conn)(nil)
)

func newConn(p *Protocol, now time.Time, peer netip.AddrPort, phase phase) *Conn {
	c := &Conn{p: p, peer: peer, start: now, phase: phase}
	c.sender.orderedOnly = p.o.OrderedOnly
	c.receiver.ackDelay = p.o.AckDelay
	c.receiver.heldBudget = p.o.MaxHeld
	c.receiver.splits.budget = p.o.MaxAssembly
	c.move(p.spaces.get())
	return c
}

// countsBits reports whether the peer is C++ RakNet, whose messages may end within a byte: a server of which Options
// says so, or a client of a version that only C++ has. All other peers send and expect whole bytes.
func (c *Conn) countsBits() bool {
	if c.dialed {
		return c.p.o.Bits
	}
	return !c.longList
}

// setMTU sets the MTU of our datagrams, and the largest that the peer's may have.
func (c *Conn) setMTU(mtu, peers int) {
	c.sender.setMTU(mtu)
	c.sender.toClient = !c.dialed
	c.receiver.splits.partRoom = max(c.receiver.splits.partRoom, 1<<classOf(partSizeAt(peers)))
}

// Advance does the work that is due.
func (c *Conn) Advance(now time.Time) {
	if c.phase == closed {
		return
	}
	at := now.Sub(c.start)
	c.occupy()
	c.recycle()
	if a := c.attempt; a != nil {
		if a.StrandAt != 0 && at >= a.StrandAt && a.StrandWhy == codec.NotStranded {
			a.StrandWhy = codec.Unanswered
		}
		if at >= a.RetryAt {
			c.ask(at)
		}
	}
	c.sender.advance(at, c.awaitsSign())
	c.narrow(at)
	c.askAgain(at)
	if c.awaitsAnswer() && at >= c.asking.RetryAt {
		c.requestConnection(at)
	}
	c.report()
	c.stepShutdown(at)
	c.stepGoodbye(at)
	switch {
	case c.phase == connected:
		c.expireUnfinished(at)
		c.stepKeepalive(at)
		c.releaseIfIdle(at)
	case c.phase < connected && at >= c.p.o.HandshakeTimeout:
		c.expireHandshake()
	}
}

// Send queues a message, also before Connected. The first byte must not be below 0x1b (ID_TIMESTAMP), because those
// are RakNet's own messages.
func (c *Conn) Send(now time.Time, m codec.Message) error {
	switch {
	case c.phase >= closing:
		return codec.ErrClosed
	case !c.p.spec.Modes.Has(m.Mode):
		return codec.ErrMode
	case len(m.Payload) == 0:
		return errEmpty
	case m.Payload[0] < idFirstUser:
		return errReservedID
	case hasChannel(m.Mode) && m.Channel >= maxChannels:
		return errChannel
	case len(m.Payload) > c.p.o.MaxMessage:
		return errMessage
	case c.sender.partsOf(len(m.Payload)) > c.mostParts():
		return errParts
	case c.sender.bytes+len(m.Payload)+queueOverhead*(c.sender.count+1) > c.p.o.MaxQueued:
		return codec.ErrFull
	}
	at := now.Sub(c.start)
	c.occupy()
	c.sender.enqueue(at, m)
	c.keepalive.ActiveAt = at
	return nil
}

// mostParts bounds the parts of a message. Only servers have a bound, and C++ RakNet, the only one of version 6, has
// none.
func (c *Conn) mostParts() int {
	if !c.dialed || c.attempt == nil && !c.longList {
		return math.MaxInt
	}
	return c.p.o.MaxParts
}

// Announce returns ErrMode: RakNet has no announcements of other clients.
func (c *Conn) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// Identity returns the client's GUID from the request that opened the connection.
func (c *Conn) Identity() uint64 { return c.guid }

// Version returns the client's protocol version from its first request.
func (c *Conn) Version() uint8 { return c.version }

// Poll returns the next event.
func (c *Conn) Poll() (codec.Event, bool) {
	if c.workspace == &noWorkspace {
		return codec.Event{}, false
	}
	return c.events.Poll()
}

// Transmit appends one datagram to b.
func (c *Conn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	at := now.Sub(c.start)
	start := len(b)
	c.occupy()
	b = c.transmit(at, b)
	c.reportAt = at + reportDelay
	if len(b) == start {
		c.wrote = false
		c.releaseIfIdle(at)
		return b, false
	}
	c.sent++
	return b, true
}

func (c *Conn) transmit(now time.Duration, b []byte) []byte {
	r := &c.receiver
	switch {
	case len(c.offline) > 0:
		b = append(b, c.offline...)
		c.memory.put(c.offline)
		c.offline = nil
		return b
	case c.phase == probing:
		return c.transmitRequest(b)
	case c.isMute():
		return b
	case r.nacks.count > nackRun && c.phase != closed && c.dialed:
		return r.nacks.writeNewest(b, c.sender.datagramSize())
	case r.nacks.count > 0 && c.phase != closed:
		return r.nacks.write(b, nackDatagram, c.sender.datagramSize())
	}
	if c.phase != closed {
		c.fillControl(now)
		var ok bool
		if b, ok = c.sender.transmit(now, b, c.phase == connected || c.phase == closing && c.shutdown.Flows); ok {
			c.wrote = true
			c.keepalive.asked(now, &c.sender)
			return b
		}
	}
	// ACKs are last, because a short datagram behind longer ones costs little extra: the kernel takes them as one.
	if c.pressure == codec.NoPressure && r.acksDue(now, c.wrote) {
		b = r.writeAcks(now, b, c.sender.datagramSize())
	}
	return b
}

// NextTimeout returns when Advance has work again.
func (c *Conn) NextTimeout() time.Time {
	if c.phase == closed {
		return time.Time{}
	}
	next := c.p.o.HandshakeTimeout
	switch c.phase {
	case connected:
		next = c.keepalive.next(&c.sender, c.p.o.Timeout)
		if at, ok := c.goodbye.next(); ok {
			next = min(next, at)
		}
	case closing:
		next = c.shutdown.next()
	}
	if len(c.sender.flight.done) > 0 {
		next = min(next, c.reportAt)
	}
	if a := c.attempt; a != nil {
		next = min(next, a.RetryAt)
		if a.StrandAt != 0 && a.StrandWhy == codec.NotStranded {
			next = min(next, a.StrandAt)
		}
	}
	if c.awaitsAnswer() {
		next = min(next, c.asking.RetryAt)
	}
	if c.receiver.acks.count > 0 && c.pressure == codec.NoPressure && !c.isMute() {
		next = min(next, c.receiver.AcksAt)
	}
	if h := &c.receiver.holes; len(h.list) > 0 && c.pressure != codec.Refuse {
		next = min(next, h.at)
	}
	if at, ok := c.sender.nextTimeout(c.awaitsSign()); ok {
		next = min(next, at)
	}
	return c.start.Add(next)
}

// address returns the peer's address in the form for the peer.
func (c *Conn) address() address { return address{c.peer, c.family} }

// Stats returns the figures so far.
func (c *Conn) Stats() codec.Stats {
	return codec.Stats{
		RTT: c.roundTrip(), Sent: c.sent, Received: c.received, Resent: c.sender.Resent, Lost: c.sender.Lost,
		Dropped: c.receiver.Dropped, Queued: c.sender.bytes, Held: c.held(), MTU: c.sender.Narrowed,
		Lenient: c.sender.Forgetful, // only go-raknet's are
	}
}

// roundTrip returns the measured round trip, or the handshake's while there is none.
func (c *Conn) roundTrip() time.Duration {
	return cmp.Or(c.keepalive.RTT.Smoothed, c.sender.RTT.Smoothed, c.sender.RTT.Deviation)
}

// report turns the outcomes of messages into events.
func (c *Conn) report() {
	f := &c.sender.flight
	for _, o := range f.done {
		if o.message.Receipt != 0 {
			c.events.Answer(o.message.Receipt, o.delivered)
		}
		c.sender.finish(o.message)
	}
	f.done = f.done[:0]
}

// recycle takes back the memory of polled events.
func (c *Conn) recycle() {
	if c.events.Len() > 0 {
		return
	}
	for i, b := range c.lent {
		c.memory.put(b)
		c.lent[i] = nil
	}
	c.lent = c.lent[:0]
}
