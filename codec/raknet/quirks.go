package raknet

import (
	"time"

	"tidegate/codec"
)

// quirks are faults of the peer's library that show in how it speaks, and that we make up for
// (docs/protocols/raknet.md#peers-without-timers).
type quirks struct {
	// untimed peers send nothing again of their own accord, but only when asked to: they send messages of the handshake
	// unreliably (jsp-raknet), or answer pings reliably (serenityjs), so that a gap shows where they were lost.
	untimed bool
	// literal peers wait for each datagram number to come, and for each reliable message, and have room for few behind
	// (jsp-raknet).
	literal bool
}

// notice learns from one of RakNet's own messages.
func (c *Conn) notice(m *inbound) {
	switch m.payload[0] {
	case idConnectionRequest, idConnectionRequestAccepted, idNewIncomingConnection:
		if m.mode == codec.Unreliable && !c.quirks.literal {
			c.quirks = quirks{untimed: true, literal: true}
			c.sender.flight.becomeLiteral()
		}
	case idConnectedPong:
		c.quirks.untimed = c.quirks.untimed || m.mode.IsReliable()
	default:
		return
	}
	c.keepalive.untimed = c.quirks.untimed
}

// patience is how long the answer to a request to send again may take.
func (c *Conn) patience() time.Duration { return c.sender.rtt.smoothed + c.sender.rtt.timeout() }

// expectAnswer has the next step of the handshake asked for if it does not come.
func (c *Conn) expectAnswer(now time.Duration) {
	c.receiver.patience = c.patience()
	c.receiver.expect(now)
}

// askAgain asks for what is missing once more where that is due. While the handshake is not over, something is.
func (c *Conn) askAgain(now time.Duration) {
	c.receiver.askAgain(now, c.patience(), c.phase < accepted || c.quirks.untimed)
}
