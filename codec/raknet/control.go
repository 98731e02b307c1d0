package raknet

import (
	"fmt"
	"time"

	"tidegate/codec"
)

// Bounds for messages of a peer that is not connected yet. It sends them after its last message of the handshake, but
// they may overtake that.
const (
	maxEarly      = 1024
	maxEarlyBytes = 256 << 10
)

var errEarlyRoom = fmt.Errorf("raknet: too many messages before the end of the handshake: %w", codec.ErrLimit)

// earlyMessages wait for Connected. Their payloads are owned.
type earlyMessages struct {
	list  []inbound `cbor:"30,keyasint,omitempty"`
	bytes int
}

// held returns the memory in bytes of the messages.
func (e *earlyMessages) held() int { return e.bytes + len(e.list)*placeCost }

// handle handles a message in its order: RakNet's own, or the game's.
func (c *Conn) handle(now time.Duration, m *inbound) error {
	if m.Payload[0] < idFirstUser {
		c.notice(m)
		err := c.handleControl(now, m.Payload, m.Pad)
		c.lend(m)
		if err != nil {
			c.receiver.Dropped++
		}
		return err
	}
	switch {
	case c.phase == connected, c.phase == accepted, c.phase == closing && c.shutdown.Flows:
		c.keepalive.ActiveAt = now
		c.doubtGoodbye(now, now)
		c.deliver(m)
		return nil
	case c.phase == requesting, c.phase == admitted:
		return c.keepEarly(m)
	}
	c.receiver.Dropped++
	c.lend(m)
	return errPhase
}

// handleControl handles one of RakNet's own messages. It ignores unknown ones, as stock RakNet does.
func (c *Conn) handleControl(now time.Duration, payload []byte, pad uint8) error {
	switch payload[0] {
	case idConnectedPing:
		var m connectedPing
		if err := m.parse(payload); err != nil {
			return err
		}
		c.receivePing(now, &m)
		return nil
	case idConnectedPong:
		var m connectedPong
		if err := m.parse(payload); err != nil {
			return err
		}
		if rtt, ok := c.keepalive.receivePong(now, &m); ok {
			c.clock.sample(rtt, m.pingTime, m.pongTime)
			c.sender.Congestion.ponged(now, rtt)
			c.doubtGoodbye(now, now-rtt)
		}
		return nil
	case idDetectLostConnections:
		return nil
	case idConnectionLost:
		var m connectionLost
		if err := m.parse(payload); err != nil {
			return err
		}
		if c.dialed && m.guid == c.guid {
			c.finish(codec.TimedOut)
		}
		return nil
	case idDisconnectionNotification:
		c.hearGoodbye(now)
		return nil
	}
	if c.dialed {
		return c.handleClient(now, payload)
	}
	return c.handleServer(now, payload, pad)
}

// goodbyeReason returns the meaning of the peer's goodbye: a refusal, if it precedes the peer's acceptance.
func (c *Conn) goodbyeReason() codec.Reason {
	switch c.phase {
	case requesting:
		return codec.Rejected
	case closing:
		return c.shutdown.Reason
	}
	return codec.Closed
}

// open ends the handshake: our own messages may be sent.
func (c *Conn) open(now time.Duration) {
	c.phase, c.upSince = connected, now
	c.keepalive.start(now)
}

// reportConnected reports Connected, and then delivers the messages that arrived before it.
func (c *Conn) reportConnected(client uint16) {
	c.events.Push(codec.Event{Kind: codec.Connected, Client: client})
	for i := range c.early.list {
		c.deliver(&c.early.list[i])
	}
	c.early = earlyMessages{}
}

// keepEarly keeps a message until the handshake ends.
func (c *Conn) keepEarly(m *inbound) error {
	if len(c.early.list) == maxEarly || c.early.bytes+len(m.Payload) > maxEarlyBytes {
		if m.Mode.IsReliable() { // it has been acknowledged, so it must not be dropped
			c.expel(codec.Violation)
		}
		c.lend(m)
		return errEarlyRoom
	}
	if !m.owned {
		m.Payload, m.owned = c.memory.copy(m.Payload), true
	}
	c.early.list = append(c.early.list, *m)
	c.early.bytes += cap(m.Payload)
	return nil
}

// deliver delivers a message to the application.
func (c *Conn) deliver(m *inbound) {
	c.clock.adjust(m.Payload)
	c.events.Push(codec.Event{Kind: codec.Received, Message: codec.Message{
		Payload: m.Payload, Pad: m.Pad, Mode: m.Mode, Channel: m.Channel,
	}})
	c.lend(m)
}

// lend keeps the memory of a message until the next input.
func (c *Conn) lend(m *inbound) {
	if m.owned {
		c.lent = append(c.lent, m.Payload)
	}
}

// scratch returns an empty buffer for one of RakNet's own messages.
func (c *Conn) scratch() []byte { return make([]byte, 0, 256) }

// milliseconds returns the time as in RakNet's messages.
func (c *Conn) milliseconds(now time.Duration) uint64 { return uint64(c.start.Add(now).UnixMilli()) }
