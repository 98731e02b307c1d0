package raknet

import (
	"fmt"
	"net/netip"
	"time"

	"tidegate/codec"
)

const (
	// maxPassword bounds the password of a client, and the password for a server, in bytes. Stock RakNet writes at most
	// 255. Servers such as go-raknet block our address for a password of very many parts.
	maxPassword = 1024
	// strangerAssembly bounds the bytes of incomplete split messages of a client that is not admitted.
	strangerAssembly = 16 << 10
)

var errPassword = fmt.Errorf("raknet: password over %d bytes: %w", maxPassword, codec.ErrLimit)

// accept makes the server's side of a connection, which first answers the client's second request.
func accept(p *Protocol, now time.Time, from netip.AddrPort, request openConnectionRequest2, o origin) *Conn {
	c := newConn(p, now, from, halfOpen)
	c.guid, c.server, c.family = request.guid, p.o.GUID, request.server.family
	c.version, c.longList, c.round = o.version, o.version >= firstLongList, o.round
	c.sender.bits = c.countsBits()
	mtu := p.clampMTU(request.mtu)
	c.setMTU(mtu, mtu)
	c.receiver.splits.budget = min(p.o.MaxAssembly, strangerAssembly)
	c.grant(0)
	return c
}

// grant answers the second request: the connection is granted.
func (c *Conn) grant(now time.Duration) {
	c.upSince = now
	c.offline = c.p.appendPlainGrant(c.blank(), c.server, c.address(), uint16(c.sender.MTU))
}

// blank returns room for the next offline message.
func (c *Conn) blank() []byte {
	if c.offline == nil {
		return c.memory.get(0)
	}
	return c.offline[:0]
}

// pongEvery is the least time between two answers to pings. Pings are short, the answers are long, and the sender may
// be forged.
const pongEvery = time.Second

var errPings = fmt.Errorf("raknet: more than one ping a second: %w", codec.ErrUnexpected)

// answerOffline answers a client's offline message, since an earlier answer of ours may have been lost. A deferred
// client gets no refusal for a datagram that may be forged, because a refusal would end its attempt.
func (c *Conn) answerOffline(now time.Time, id byte, b []byte) error {
	switch id {
	case idUnconnectedPing, idUnconnectedPingOpen:
		return c.answerPing(now, b)
	case idOpenConnectionRequest1:
		round := c.round
		if c.phase >= asked {
			round = nextRound(round)
		}
		reply, err := c.p.answer(now, c.peer, b, c.blank(), round)
		if err != nil && c.phase == deferred {
			c.memory.put(reply)
			return err
		}
		c.offline = reply
		return err
	}
	return c.answerRequest2(now, b)
}

// answerRequest2 answers a second request from the address of this connection. A client may have started again, for
// example after a crash, and its cookie then proves it. Such a client replaces the known one: it repeats its
// unanswered request and then finds the place free. Without that proof the connected client stays
// (docs/protocols/raknet/join.md#connection-outcome).
func (c *Conn) answerRequest2(now time.Time, b []byte) error {
	request, o, err := c.p.parseRequest2(now, c.peer, b)
	proven := c.p.o.Cookies != CookiesNone
	switch {
	case err != nil:
		return err
	case request.challenged:
		c.offline = c.p.appendPlainGrant(c.blank(), c.server, c.address(), request.mtu)
	case request.guid == c.guid && c.phase == deferred: // Grant will answer it
	case c.hasBegunAnew(now, request.cookie, o): // also before it is complete: its messages would be taken for repeats
		c.finish(c.goodbyeReason())
	case request.guid == c.guid && c.phase < connected:
		c.grant(now.Sub(c.start))
	case c.phase == deferred && !proven:
		return errPhase
	case proven && c.phase != connected:
		c.finish(c.goodbyeReason())
	case c.goodbye.Heard: // a refusal would end the attempt; its place may be free when it repeats this
		return errPhase
	default:
		c.offline = c.p.appendRefusal(c.blank(), idAlreadyConnected, serverIdentity{guid: c.server})
	}
	return nil
}

// answerPing answers one ping a second.
func (c *Conn) answerPing(now time.Time, b []byte) error {
	at := now.Sub(c.start)
	if at < c.pongDue {
		return errPings
	}
	reply, err := c.p.answerPing(b, c.blank())
	if err == nil {
		c.offline, c.pongDue = reply, at+pongEvery
	}
	return err
}

// handleServer handles RakNet's own messages of a client's handshake.
func (c *Conn) handleServer(now time.Duration, payload []byte, pad uint8) error {
	switch payload[0] {
	case idConnectionRequest:
		var m connectionRequest
		if err := m.parse(payload); err != nil {
			return err
		}
		switch c.phase {
		case halfOpen:
		case asked, admitted:
			return nil // a client without an answer may repeat it
		default:
			return errPhase
		}
		c.sender.RTT.expect(now - c.upSince)
		if len(m.password) > maxPassword {
			c.enqueueRefusal(now, codec.InvalidPassword)
			c.startShutdown(now, codec.InvalidPassword)
			return errPassword
		}
		if m.encrypts { // the client takes the connection for encrypted
			refusal := requiresSecurity{client: c.address(), guid: c.server}
			c.sender.enqueueControl(now, codec.Reliable, refusal.append(c.scratch()), 0)
			c.startShutdown(now, codec.Incompatible)
			return nil
		}
		c.phase, c.askedAt = asked, m.time
		c.events.Push(codec.Event{
			Kind: codec.Asked, Message: codec.Message{Payload: m.password, Pad: pad}, Identity: c.guid,
		})
	case idNewIncomingConnection:
		var m newIncomingConnection
		if err := m.parse(payload); err != nil {
			return err
		}
		if c.phase != admitted {
			return errPhase
		}
		c.sampleClock(now, m.serverTime, m.clientTime)
		c.open(now)
		c.reportConnected(0)
	default:
		return errPhase
	}
	return nil
}

// Admit accepts the client. client is the index that the client receives.
func (c *Conn) Admit(now time.Time, client uint16) {
	if c.phase != asked {
		return
	}
	c.phase = admitted
	c.receiver.splits.budget = c.p.o.MaxAssembly
	c.occupy()
	m := connectionRequestAccepted{
		client: c.address(), index: client, addresses: c.ownAddresses(), requestTime: c.askedAt,
		replyTime: uint64(now.UnixMilli()),
	}
	c.sender.enqueueControl(now.Sub(c.start), codec.ReliableOrdered, m.append(c.scratch()), 0)
	c.expectAnswer(now.Sub(c.start))
}
