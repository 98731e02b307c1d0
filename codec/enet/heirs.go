package enet

import (
	"crypto/sha256"
	"time"

	"tidegate/codec"
)

var _ codec.Succeeder = (*Conn)(nil)

// A client may start again on the address and port of a session: after a crash, or because its game keeps its socket.
// The library's server makes a second peer. We answer such a Connect beside the session, and end the session when the
// new client has proved the address and the old one answers no ping.
const (
	maxHeirs     = 4                      // new clients that are answered beside a session; the oldest makes room
	heirPause    = 20 * time.Millisecond  // between two of them
	heirPatience = 100 * time.Millisecond // for an old client's answer, beside two round trips
)

// heirs are the new clients at the address of a session.
type heirs struct {
	list   []*Conn
	proved *Conn // nil: none has proved the address
}

// Successor implements codec.Succeeder.
func (c *Conn) Successor() codec.Conn {
	if c.state != closed || c.heirs.proved == nil {
		return nil
	}
	return c.heirs.proved
}

// invite answers the Connect of a new client. It is no sign of life of this one.
func (c *Conn) invite(now time.Time, asks *request) error {
	h := &c.heirs
	for _, n := range h.list {
		if n.terms.connectID == asks.connectID {
			n.handshake.asked++
			n.handshake.due = n.handshake.maySend()
			return codec.ErrDuplicate
		}
	}
	if last := len(h.list) - 1; last >= 0 && now.Sub(h.list[last].epoch) < heirPause {
		return codec.ErrLimit
	}
	if len(h.list) == maxHeirs {
		h.list = append(h.list[:0], h.list[1:]...)
	}
	n := newConn(c.options, now, c.secretsBeside(now, &asks.connect)).accept(asks)
	n.Admit(now, 0)
	h.list = append(h.list, n)
	return codec.ErrUnexpected
}

// secretsBeside returns secrets that differ from those of this session and of other new clients.
func (c *Conn) secretsBeside(now time.Time, asks *connect) secrets {
	var b [32 + 12 + connectLen]byte
	copy(b[:], c.options.Seed[:])
	be.PutUint64(b[32:], uint64(now.UnixNano()))
	copy(b[40:], c.terms.connectID[:])
	asks.append(b[:44])
	s := secretsOf(sha256.Sum256(b[:]))
	for s.ID == c.secrets.ID || c.heir(s.ID) != nil {
		s.ID = (s.ID + 1) % (maxID + 1)
	}
	return s
}

// heir returns the new client that was given an ID, or nil.
func (c *Conn) heir(id uint16) *Conn {
	for _, n := range c.heirs.list {
		if n.secrets.ID == id {
			return n
		}
	}
	return nil
}

// hearHeir takes a datagram of a new client. It must begin with the acknowledgement of our VerifyConnect. The client
// repeats what follows.
func (c *Conn) hearHeir(now time.Time, n *Conn, h *header, d, rest []byte) error {
	if h.session != n.sessionIn || c.heirs.proved != nil {
		return codec.ErrUnexpected
	}
	n.in.recycle()
	rest, err := n.commandsOf(h, d, rest)
	if err != nil {
		return err
	}
	var cmd command
	if _, err := cmd.parse(rest); err != nil {
		return err
	}
	if err := n.receiveProof(now, &cmd); err != nil {
		return err
	}
	c.heirs = heirs{proved: n}
	patience := heirPatience + 2*c.rtt.Mean
	if c.state != connected || now.Sub(c.heard) > goodbyePatience+2*c.rtt.Mean || !c.farewell.heard.IsZero() {
		if c.peer != n.peer { // another peer of the same host, which may have our VerifyConnect
			c.refusal = c.appendDisconnectNow(nil)
		}
		c.endByPeer(c.farewell.data)
		return nil
	}
	c.farewell = goodbye{heard: now, endAt: now.Add(patience), pingAt: now}
	return nil
}

// turnAway tells a new client that the old one is still here.
func (c *Conn) turnAway() {
	if n := c.heirs.proved; n != nil && c.farewell.heard.IsZero() {
		c.refusal, c.heirs.proved = n.appendDisconnectNow(nil), nil
	}
}

// advance repeats our answers, and forgets clients that have not come.
func (h *heirs) advance(now time.Time) {
	for len(h.list) > 0 && !now.Before(h.list[0].deadline) {
		h.list = h.list[1:]
	}
	for _, n := range h.list {
		n.handshake.advance(now, n)
	}
}

// next returns when advance has work; zero: never.
func (h *heirs) next() (at time.Time) {
	for _, n := range h.list {
		at = codec.Earliest(at, codec.Earliest(n.deadline, n.handshake.nextAt))
	}
	return at
}

// transmit appends an answer to a new client.
func (h *heirs) transmit(now time.Time, b []byte) []byte {
	for _, n := range h.list {
		if n.handshake.due {
			return n.appendHandshake(now, b)
		}
	}
	return b
}
