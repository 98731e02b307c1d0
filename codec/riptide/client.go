package riptide

import (
	"time"

	"tidegate/codec"
)

// ticker is a client's clock. It sends Connect until the answer, then heartbeats, one each HeartbeatInterval from Dial
// on.
type ticker struct {
	next     time.Time `cbor:"1,keyasint,omitempty"` // zero on the server's side
	connect  []byte    `cbor:"2,keyasint,omitempty"` // the Connect datagram, until connected
	attempts int       `cbor:"3,keyasint,omitempty"`
	patient  bool      `cbor:"6,keyasint,omitempty"`  // a full server may soon have a place
	full     bool      `cbor:"7,keyasint,omitempty"`  // the server is full, and will be asked again at next
	asks     bool      `cbor:"8,keyasint,omitempty"`  // the proxy is told to ask it now
	refusals uint8     `cbor:"9,keyasint,omitempty"`  // of the full server
	owed     bool      `cbor:"10,keyasint,omitempty"` // a heartbeat was held back
	ping     uint8     `cbor:"4,keyasint,omitempty"`  // of the next heartbeat; of a server: of the one whose answer waits
	// pingAt says when the latest heartbeat was sent, zero once answered; of a server: when it is answered.
	pingAt time.Time `cbor:"5,keyasint,omitempty"`
}

// dial makes the client's side of a session. docs/protocols/riptide.md#client
func dial(p *Protocol, now time.Time, hello codec.Hello) *Conn {
	c := newConn(p, now)
	c.tentative, c.ticker.patient = hello.Tentative, hello.Patient
	if c.dialect.size(0, len(hello.Data), hello.Pad) > p.options.maxDatagram {
		c.end(codec.NoConnection)
		return c
	}
	c.ticker.connect = c.dialect.append(nil, kindConnect, nil, hello.Data, hello.Pad)
	c.ticker.next = now
	c.tick(now)
	return c
}

// leave tells the server that the client leaves. A client gives no reason.
func (c *Conn) leave() {
	c.data.end(c.dialect.append(c.data.begin(), kindDisconnect, nil, nil, 0))
}

// tick sends the datagrams that are due at each heartbeat interval.
func (c *Conn) tick(now time.Time) {
	if c.state == closed || now.Before(c.ticker.next) {
		return
	}
	c.ticker.next = c.ticker.next.Add(c.options.HeartbeatInterval)
	if !now.Before(c.ticker.next) {
		c.ticker.next = now.Add(c.options.HeartbeatInterval)
	}
	switch c.state {
	case connecting:
		if c.ticker.full {
			c.askAgain(now)
			return
		}
		c.attempt()
	case connected:
		c.relax()
		if c.ticker.owed = c.isMute(); !c.ticker.owed {
			c.sendHeartbeat(now)
		}
	}
}

// attempt sends Connect, or gives up. A stream loses nothing, so the client sends Connect only once there. A server of
// 2.0 disconnects a client that repeats it.
func (c *Conn) attempt() {
	if c.ticker.attempts == c.options.MaxAttempts {
		c.end(codec.NoConnection)
		return
	}
	c.ticker.attempts++
	if c.options.Stream && c.ticker.attempts > 1 {
		return
	}
	if b, ok := c.reply(len(c.ticker.connect)); ok {
		c.control.end(append(b, c.ticker.connect...))
	}
}

func (c *Conn) sendHeartbeat(now time.Time) {
	h := heartbeat{ping: c.ticker.ping, rtt: c.rtt.milliseconds()}
	c.ticker.owed = false
	c.ticker.ping++
	c.ticker.pingAt = now
	if b, ok := c.reply(4); ok {
		c.control.end(h.append(c.dialect, b))
	}
}

// receiveFromServer handles the messages that only a server sends.
func (c *Conn) receiveFromServer(now time.Time, k kind, d []byte) error {
	switch k {
	case kindConnect:
		return c.receivePending(now)
	case kindReject:
		if c.acceptsMessages() {
			return codec.ErrUnexpected
		}
		return c.receiveGoodbye(now, d)
	case kindDisconnect:
		return c.receiveGoodbye(now, d)
	case kindHeartbeat:
		return c.receivePong(now, d)
	}
	return codec.ErrUnexpected
}

// receivePending handles the server's bare Connect, or a Reject with the same meaning. The attempt has arrived, so the
// client need not repeat it.
func (c *Conn) receivePending(now time.Time) error {
	if c.state != connecting || c.ticker.full {
		return codec.ErrUnexpected
	}
	c.state = pending
	c.heard = now
	return nil
}

func (c *Conn) receiveGoodbye(now time.Time, d []byte) error {
	var f goodbye
	if err := f.parse(c.dialect, d); err != nil {
		return err
	}
	if f.kind == kindReject && f.reason == rejectPending {
		return c.receivePending(now)
	}
	if f.kind == kindReject && f.meaning() == codec.ServerFull && c.mayAskAgain(now) {
		return nil
	}
	disconnected := codec.Event{Kind: codec.Disconnected, Reason: f.meaning()}
	if f.carriesData() {
		disconnected.Payload, disconnected.Pad = c.lend(d, goodbyeLen)
	}
	c.hearGoodbye(now, disconnected)
	return nil
}

func (c *Conn) receivePong(now time.Time, d []byte) error {
	ping, err := parseHeartbeatAnswer(c.dialect, d)
	if err != nil {
		return err
	}
	if c.state != connected {
		return codec.ErrUnexpected
	}
	c.heard = now
	if ping == c.ticker.ping-1 && !c.ticker.pingAt.IsZero() {
		c.rtt.measure(now.Sub(c.ticker.pingAt))
		c.ticker.pingAt = time.Time{}
	}
	return nil
}

// receiveWelcome takes the ID that the server assigns. A tentative connection holds its own Welcome back.
func (c *Conn) receiveWelcome(now time.Time, d []byte) error {
	var n clientNote
	if err := n.parse(c.dialect, d); err != nil {
		return err
	}
	c.client = n.client
	c.ticker.connect = nil
	c.events.Push(codec.Event{Kind: codec.Connected, Client: n.client})
	if c.tentative {
		c.state, c.heard = welcomed, now
		return nil
	}
	c.join(now)
	return nil
}

// join echoes the server's Welcome, which starts the session on the server's side.
func (c *Conn) join(now time.Time) {
	c.sendWelcome(now)
	c.open(now)
}

// Confirm implements codec.Confirmer.
func (c *Conn) Confirm(now time.Time) {
	c.tentative = false
	if !c.server && c.state == welcomed {
		c.join(now)
	}
}

// A server counts a player that has left while the proxy doubts its goodbye. A player that comes back at once may find
// it full, and takes that for final. So a patient client asks again. Servers of 2.1.0 to 2.2.0 never answer an address
// again that they have refused. Therefore it asks from another one.
const (
	fullAsks = 2
	fullWait = doubtTime + 150*time.Millisecond
	fullTurn = 100 * time.Millisecond // how long the proxy may take to ask
)

var _ codec.Redialer = (*Conn)(nil)

// mayAskAgain reports whether the client waits until it asks the full server again.
func (c *Conn) mayAskAgain(now time.Time) bool {
	t := &c.ticker
	if c.server || !t.full && (!t.patient || t.refusals == fullAsks || c.options.Stream) {
		return false
	}
	if !t.full {
		c.state = connecting
		t.full = true
		t.refusals++
		t.next = now.Add(fullWait)
	}
	return true
}

// askAgain lets the proxy ask. Without a proxy that does, the refusal counts.
func (c *Conn) askAgain(now time.Time) {
	if c.ticker.asks {
		c.end(codec.ServerFull)
		return
	}
	c.ticker.asks = true
	c.ticker.next = now.Add(fullTurn)
}

// Stranded implements codec.Redialer.
func (c *Conn) Stranded() codec.Stranding {
	if c.state == connecting && c.ticker.asks {
		return codec.TurnedAway
	}
	return codec.NotStranded
}

// Redial implements codec.Redialer.
func (c *Conn) Redial(now time.Time, _ codec.Addresser) {
	t := &c.ticker
	if c.state != connecting || !t.asks {
		return
	}
	t.full, t.asks, t.attempts, t.next = false, false, 0, now
	c.tick(now)
}
