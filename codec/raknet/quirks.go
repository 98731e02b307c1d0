package raknet

import (
	"time"

	"tidegate/codec"
)

// quirks are faults of the peer's library that show in its messages. We compensate for them
// (docs/protocols/raknet/recovery.md#peers-without-timers).
type quirks struct {
	// untimed peers send again only on request. They send messages of the handshake unreliably (jsp-raknet) or answer
	// pings reliably (serenityjs), so that a gap shows losses.
	untimed bool
	// rated peers have sent the bit of a slow start, which jsp-raknet never does. Cloudburst has timers, though its answer
	// to a connection request is unreliable. It counts until the handshake is over.
	rated bool
	// literal peers wait for each datagram number and each reliable message, and have little room behind them
	// (jsp-raknet).
	literal bool
}

// notice learns from one of RakNet's own messages.
func (c *Conn) notice(m *inbound) {
	switch m.Payload[0] {
	case idConnectionRequest, idConnectionRequestAccepted, idNewIncomingConnection:
		if m.Mode == codec.Unreliable && !c.quirks.literal && !c.quirks.rated {
			c.quirks = quirks{untimed: true, literal: true}
			c.sender.flight.becomeLiteral()
		}
	case idConnectedPong:
		c.quirks.untimed = c.quirks.untimed || m.Mode.IsReliable()
	case idConnectedPing: // only go-raknet's are ordered
		c.sender.Forgetful = c.sender.Forgetful || m.Mode == codec.ReliableOrdered
		return
	default:
		return
	}
	c.keepalive.Untimed = c.quirks.untimed
}

// patience returns how long the answer to a request to send again may take.
func (c *Conn) patience() time.Duration { return c.sender.RTT.Smoothed + c.sender.RTT.timeout() }

// expectAnswer requests the next step of the handshake if it does not arrive.
func (c *Conn) expectAnswer(now time.Duration) {
	c.receiver.Patience = c.patience()
	c.receiver.expect(now)
}

// askAgain requests missing datagrams once more if that is due. Until the handshake is over, one is always missing.
func (c *Conn) askAgain(now time.Duration) {
	c.receiver.askAgain(now, c.patience(), c.phase < accepted || c.quirks.untimed)
}
