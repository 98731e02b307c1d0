package riptide

import (
	"time"

	"tidegate/codec"
)

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
