package codectest

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"time"

	"tidegate/codec"
)

// The toy codec is the smallest codec that keeps the whole contract, so that the suite can pass. It can also break one
// promise, so that the suite must fail. Each datagram is a kind, a body and a CRC-32.
const (
	toyHello   = iota // identity u64, pad u8, data
	toyWelcome        // client ID u16
	toyJoined         // the client has received the welcome
	toyMessage        // see toyHeader
	toyAck            // sequence u16
	toyGoodbye        // reason u8, pad u8, data
	toyPing
	toyPong
)

const (
	toyMaxPayload = 1200
	toySlots      = 64 // messages that wait to be sent or acknowledged
	toyWindow     = 1024
	toyTimeout    = 4 * time.Second
	toyPingEvery  = 500 * time.Millisecond
	toyResend     = 150 * time.Millisecond
	toyReport     = time.Second // an unacknowledged Notify is lost after this time
)

type toyProtocol struct {
	fault string // the promise to break; empty: none
	first toySeq // sequence number to start with
}

var toySpec = codec.Spec{
	Name: "toy",
	Modes: codec.ModesOf(codec.Unreliable, codec.UnreliableSequenced, codec.Reliable, codec.ReliableOrdered,
		codec.ReliableSequenced, codec.Notify),
	IDs:          codec.IDBeside,
	Openings:     codec.ByteSetOf(toyHello),
	FirstBytes:   codec.ByteSetOf(toyHello, toyJoined, toyMessage, toyAck, toyGoodbye, toyPing, toyPong),
	LoneOpenings: codec.ByteSetOf(toyHello),
}

// Spec returns false facts if that is the fault.
func (p *toyProtocol) Spec() *codec.Spec {
	spec := toySpec
	switch p.fault {
	case "hides a first byte":
		spec.FirstBytes = codec.ByteSetOf(toyHello, toyJoined)
	case "opens later":
		spec.Openings = codec.ByteSetOf(toyHello, toyPing)
	case "claims a proof":
		spec.Proof = codec.ProvedConnect
	case "claims an early proof":
		spec.Proof = codec.ProvedAccept
	case "denies that a byte opens":
		spec.LoneOpenings = codec.ByteSet{}
	}
	return &spec
}

func (p *toyProtocol) Sniff(b []byte) bool {
	return len(b) > 0 && b[0] == toyHello || isToyQuestion(b) || p.fault == "sniffs anything"
}

func (p *toyProtocol) conn(now time.Time) *toyConn {
	if p.fault == "learns" {
		p.first++
	}
	return &toyConn{
		fault: p.fault, heard: now,
		toyOut: toyOut{nextSeq: p.first, nextOrder: p.first},
		toyIn:  toyIn{newest: p.first - 1, sequenced: p.first - 1, notified: p.first - 1, expected: p.first},
	}
}

func (p *toyProtocol) Accept(now time.Time, _ netip.AddrPort, b, reply []byte) (codec.Conn, []byte, error) {
	if isToyQuestion(b) {
		return nil, append(append(reply, b...), "a toy"...), nil
	}
	body, ok := toyOpen(b)
	switch {
	case p.fault == "invents errors" && !ok:
		return nil, reply, errors.New("no idea")
	case !ok || len(body) < 10:
		return nil, reply, codec.ErrMalformed
	}
	c := p.conn(now)
	c.server, c.identity = true, binary.BigEndian.Uint64(body[1:])
	c.ask = append(c.ask, body[10:]...)
	asked := codec.Event{
		Kind: codec.Asked, Message: codec.Message{Payload: c.ask, Pad: body[9]}, Identity: c.identity,
	}
	if p.fault == "forgets the identity" {
		asked.Identity = 0
	}
	c.push(asked)
	if p.fault == "asks twice" {
		c.push(asked)
	}
	return c, reply, nil
}

func (p *toyProtocol) Refuse(_, reply []byte, reason codec.Reason) []byte {
	if p.fault == "refuses with another reason" {
		reason = codec.Rejected
	}
	if p.fault == "refuses in place" {
		reply = reply[:0]
	}
	return toySeal(append(reply, toyGoodbye, byte(reason), 0), len(reply))
}

func (p *toyProtocol) Dial(now time.Time, _ netip.AddrPort, hello codec.Hello) codec.Conn {
	c := p.conn(now)
	c.handshakeAt, c.tentative = now, hello.Tentative && p.fault != "joins unconfirmed"
	c.ask = append(c.ask, toyHello)
	c.ask = binary.BigEndian.AppendUint64(c.ask, hello.Identity)
	c.ask = append(append(c.ask, hello.Pad), hello.Data...)
	return c
}

// toySeal appends the checksum of the datagram that begins at start.
func toySeal(b []byte, start int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}

// toyOpen checks and removes the checksum.
func toyOpen(b []byte) (body []byte, ok bool) {
	if len(b) < 5 {
		return nil, false
	}
	body = b[:len(b)-4]
	return body, binary.BigEndian.Uint32(b[len(b)-4:]) == crc32.ChecksumIEEE(body)
}

// toySeq is a sequence number of the toy. It wraps; compare it only with before.
type toySeq uint16

func (s toySeq) before(t toySeq) bool { return int16(s-t) < 0 }

type toyConn struct {
	fault                           string
	server, joined, over            bool
	tentative                       bool   // dialing side: toyJoined and messages wait for Confirm
	ask                             []byte // hello datagram (dialing side) or connect data (accepting side)
	welcome                         uint16
	identity                        uint64 // the client's, on the accepting side
	admitted                        bool
	handshakeAt                     time.Time // when to repeat the hello or the welcome
	handshake, ping, pong, answered bool      // datagrams to send
	heard, pingAt                   time.Time
	goodbye                         []byte // datagram to send, without checksum
	events                          []codec.Event
	polled                          int
	stats                           codec.Stats
	toyOut
	toyIn
}

func (c *toyConn) push(e codec.Event) { c.events = append(c.events, e) }

func (c *toyConn) Poll() (codec.Event, bool) {
	if c.polled == len(c.events) {
		c.events, c.polled = c.events[:0], 0
		return codec.Event{}, false
	}
	c.polled++
	if c.fault == "changes what it lent" && c.polled > 1 {
		clear(c.events[c.polled-2].Payload)
	}
	return c.events[c.polled-1], true
}

func (c *toyConn) Stats() codec.Stats {
	stats := c.stats
	switch c.fault {
	case "counts wrongly":
		stats.Queued++
	case "counts backwards":
		stats.Sent = 1000 - stats.Sent
	}
	for i := range c.slots {
		if c.slots[i].used {
			stats.Queued += len(c.slots[i].datagram)
		}
	}
	return stats
}

func (c *toyConn) Announce(time.Time, codec.EventKind, uint16) error {
	if c.fault == "announces" {
		return nil
	}
	return codec.ErrMode
}

func (c *toyConn) Receive(now time.Time, b []byte) error {
	body, ok := toyOpen(b)
	switch {
	case !ok && !c.over && c.fault == "dies of garbage":
		c.end(codec.Violation, nil, 0)
		return codec.ErrMalformed
	case !ok || c.over && c.fault != "ends again":
		return codec.ErrMalformed
	}
	if c.fault == "remembers everything" || c.fault == "remembers large messages" && len(b) > 600 {
		c.hoard = append(c.hoard, append([]byte(nil), b...))
	}
	c.stats.Received++
	c.heard = now
	switch kind := body[0]; {
	case kind == toyWelcome && !c.server && len(body) == 3:
		c.answered = !c.tentative
		c.join(binary.BigEndian.Uint16(body[1:]))
	case kind == toyJoined && c.admitted:
		c.join(0)
	case kind == toyMessage && (c.joined || c.admitted) && len(body) >= toyHeaderLen:
		c.join(0)
		return c.receiveMessage(body)
	case kind == toyAck && len(body) == 3:
		c.acknowledged(now, toySeq(binary.BigEndian.Uint16(body[1:])))
	case kind == toyGoodbye && len(body) >= 3:
		c.ask = append(c.ask[:0], body[3:]...)
		c.end(codec.Reason(body[1]), c.ask, body[2])
	case kind == toyPing:
		c.pong = true
	}
	return nil
}

// join makes the connection connected, once.
func (c *toyConn) join(client uint16) {
	if c.joined {
		return
	}
	c.joined, c.pingAt, c.handshakeAt = true, c.heard.Add(toyPingEvery), time.Time{}
	if c.fault == "tells a wrong ID" {
		client = 0
	}
	if c.fault != "receives too early" && (c.fault != "never connects" || !c.server) {
		c.push(codec.Event{Kind: codec.Connected, Client: client})
	}
}

func (c *toyConn) Confirm(time.Time) {
	if c.fault != "confirms in vain" {
		c.answered = c.answered || c.tentative
		c.tentative = false
	}
}

func (c *toyConn) Admit(now time.Time, client uint16) {
	c.admitted, c.welcome, c.handshakeAt, c.handshake = true, client, now.Add(toyResend), true
}

func (c *toyConn) Close(_ time.Time, why codec.Goodbye) {
	if c.over {
		return
	}
	c.goodbye = append(c.goodbye, toyGoodbye, byte(why.Reason), why.Pad)
	if c.fault != "goodbye without data" {
		c.goodbye = append(c.goodbye, why.Data...)
	}
	c.end(why.Reason, nil, 0)
}

// end answers the remaining receipts and disconnects.
func (c *toyConn) end(reason codec.Reason, data []byte, pad uint8) {
	c.over = true
	for i := range c.slots {
		if s := &c.slots[i]; s.used && c.fault != "receipt forgotten" {
			c.release(s, codec.Lost)
		}
	}
	c.push(codec.Event{Kind: codec.Disconnected, Reason: reason, Message: codec.Message{Payload: data, Pad: pad}})
	if c.fault == "disconnected twice" {
		c.push(codec.Event{Kind: codec.Disconnected, Reason: reason})
	}
}

func (c *toyConn) Advance(now time.Time) {
	if c.over {
		return
	}
	if !now.Before(c.heard.Add(toyTimeout)) && c.fault != "never times out" {
		reason := codec.TimedOut
		if !c.joined && !c.server {
			reason = codec.NoConnection
		}
		c.end(reason, nil, 0)
		return
	}
	if c.joined && !now.Before(c.pingAt) && c.fault != "busy loop" {
		c.ping, c.pingAt = true, now.Add(toyPingEvery)
		switch c.fault {
		case "moody":
			c.pingAt = c.pingAt.Add(time.Duration(rand.IntN(1e6)))
		case "restless":
			c.pingAt = now.Add(100 * time.Microsecond)
		}
	}
	if !c.handshakeAt.IsZero() && !now.Before(c.handshakeAt) {
		c.handshake, c.handshakeAt = true, now.Add(toyResend)
	}
	c.advanceSlots(now)
}

func (c *toyConn) NextTimeout() time.Time {
	if c.over {
		return time.Time{}
	}
	next := codec.Earliest(c.heard.Add(toyTimeout), c.handshakeAt)
	if c.fault == "never times out" {
		next = c.handshakeAt
	}
	if c.joined {
		next = codec.Earliest(next, c.pingAt)
	}
	return c.nextSlotTimeout(next)
}

func (c *toyConn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	start := len(b)
	b, ok := c.append(now, b)
	if !ok {
		return b, false
	}
	c.stats.Sent++
	if c.fault == "overwrites the buffer" {
		return append(b[:0], b[start:]...), true
	}
	return toySeal(b, start), true
}

// append appends the next datagram without its checksum.
func (c *toyConn) append(now time.Time, b []byte) ([]byte, bool) {
	switch {
	case c.goodbye != nil:
		b, c.goodbye = append(b, c.goodbye...), nil
	case c.over:
		return b, false
	case c.handshake && c.server:
		b, c.handshake = binary.BigEndian.AppendUint16(append(b, toyWelcome), c.welcome), false
	case c.handshake:
		b, c.handshake = append(b, c.ask...), false
	case c.answered:
		b, c.answered = append(b, toyJoined), false
	case c.ping:
		b, c.ping = append(b, toyPing), false
	case c.pong:
		b, c.pong = append(b, toyPong), false
	case len(c.acks) > 0:
		b, c.acks = binary.BigEndian.AppendUint16(append(b, toyAck), uint16(c.acks[0])), c.acks[:copy(c.acks, c.acks[1:])]
	default:
		return c.appendMessage(now, b)
	}
	return b, true
}
