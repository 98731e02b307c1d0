// Package stats counts: datagrams, messages, drops by reason, sessions, durations. It knows no Relay and no session.
package stats

import (
	"errors"

	"tidegate/codec"
	"tidegate/ratelimit"
)

// Drop is why a datagram or a message went no further.
type Drop uint8

// Reasons to drop.
const (
	DropEmpty           Drop = iota // a datagram without a byte
	DropSourcePort                  // a datagram from source port 0, which nobody can answer
	DropUnknownProtocol             // a first datagram that no protocol of the listener knows
	DropRefused                     // a first datagram that its protocol refused
	DropTableFull                   // a newcomer while all places for sessions were taken
	DropHalfOpen                    // a newcomer while too many others had not finished joining
	DropMalformed                   // a datagram, or part of one, not of its protocol's layout
	DropUnexpected                  // a datagram that its session does not expect now
	DropDuplicate                   // a datagram or message seen before, or stale
	DropWindow                      // a datagram too far ahead
	DropLimit                       // a bound on a peer's memory
	DropTooLarge                    // a message larger than the far side's protocol carries
	DropQueueFull                   // a message for a peer who has too much queued already
	DropEnvelope                    // a message not in the route's envelope
	DropUnfit                       // a message that the far side's protocol has no form for
	DropUndeclared                  // a message whose ID the route does not declare
	DropSchema                      // a message that is not what the route declares it to be
	DropClosing                     // a message for a side that is saying goodbye
	DropSocket                      // no socket could be had towards the upstream
	DropPingBudget                  // a stranger's question whose answer, larger than it, is beyond Settings.Answers
	DropBanned                      // a datagram from a newcomer of a banned network
	DropUnanswered                  // a client's first datagrams, passed on to a server that said nothing (ModeRelay)
	DropSourceRule                  // a datagram from a newcomer whom a rule about sources keeps out
	DropMessageRule                 // a message that a rule about messages stops
	DropKnown                       // a newcomer who plays already, from another address
	DropRate                        // a datagram or a reliable message beyond a limit
	DropHandshakes                  // a newcomer beyond a limit of handshakes
	DropAskAgain                    // a newcomer who must ask twice, since too many ask
	DropHalfOpenSource              // a newcomer while too many others of its address or network had not finished joining
	DropUnproved                    // a datagram for a client who might be forged and was sent enough
	DropHeld                        // an unreliable message while a session has no server
	DropUntrusted                   // a PROXY protocol header of somebody who is not believed
	DropUntold                      // a trusted proxy's datagram that does not say whose it is
	DropPaced                       // a client's datagram while too many waited for their way to its server (ModeRelay)
	DropOverload                    // a stranger's datagram while more waited than could be read, and players with them
	DropReplyBudget                 // a stranger's datagram whose answer, not larger than it, is one of too many
	DropCount
)

var dropNames = [DropCount]string{
	"empty", "source-port", "unknown-protocol", "refused", "table-full", "half-open", "malformed", "unexpected",
	"duplicate", "window", "limit", "too-large", "queue-full", "envelope", "unfit", "undeclared", "schema", "closing", "socket",
	"ping-budget", "banned", "unanswered", "source-rule", "message-rule",
	"already-connected",
	"rate", "handshakes", "ask-again", "half-open-source", "unproved",
	"held", "untrusted-header", "no-header", "paced",
	"overload", "reply-budget",
}

// String is the reason's name as in logs and metrics.
func (d Drop) String() string {
	if d < DropCount {
		return dropNames[d]
	}
	return "unknown"
}

// Traffic counts messages and the bytes of their payloads; in ModeRelay, datagrams and theirs.
type Traffic struct {
	Messages uint64
	Bytes    uint64
}

// Add adds a message.
func (t *Traffic) Add(m *codec.Message) {
	t.Messages++
	t.Bytes += uint64(len(m.Payload))
}

// Count adds a datagram.
func (t *Traffic) Count(datagram []byte) {
	t.Messages++
	t.Bytes += uint64(len(datagram))
}

// Join adds other traffic.
func (t *Traffic) Join(o Traffic) {
	t.Messages += o.Messages
	t.Bytes += o.Bytes
}

// Wire is the datagrams on one side of the proxy, and their bytes without the headers of IP and UDP.
type Wire struct{ In, Out Traffic }

func (w *Wire) join(o *Wire) {
	w.In.Join(o.In)
	w.Out.Join(o.Out)
}

// Breaches counts what went beyond a limit, by what was done about it.
type Breaches struct {
	Observed uint64 // nothing
	Enforced uint64 // its verdict
}

// Counters are the totals of a Relay. They only grow.
type Counters struct {
	Opened        uint64 // sessions asked for
	Established   uint64 // sessions both of whose sides were connected
	Closed        uint64 // sessions ended
	Evicted       uint64 // of those, half-open ones that had to make room for newcomers
	Held          uint64 // times that an established session lost its server and was kept
	Moved         uint64 // times that an operator moved one
	Regained      uint64 // times that a server took one that was held or moved
	Redialed      uint64 // times that a server was asked anew from another address
	Clients       Wire   // strangers' datagrams and answers to them included, without those that RelayedDown has
	Upstreams     Wire   // without those that RelayedUp has
	FromClients   Traffic
	FromUpstreams Traffic
	RelayedUp     Traffic // datagrams of clients passed on by routes in ModeRelay
	RelayedDown   Traffic // datagrams of servers passed on by routes in ModeRelay
	Drops         [DropCount]uint64
	Paced         uint64 // datagrams that waited for their turn on the way to a server
	Overtaken     uint64 // messages that arrived after a newer one of their channel (ordered = "fast")
	Resent        uint64 // transmissions beyond the first of messages that only Tidegate resends (reliable = "resend")
	Passed        uint64 // messages that went as they were, for want of a declared schema
	// Limits counts the breaches of limits by what and together with whom they count.
	Limits [ratelimit.Quantities][ratelimit.Scopes]Breaches
	Lost   uint64 // reliable messages known to be lost (reliable = "report")
}

// Add adds the totals of another Relay.
func (c *Counters) Add(o *Counters) {
	c.Opened += o.Opened
	c.Evicted += o.Evicted
	for q := range c.Limits {
		for s := range c.Limits[q] {
			c.Limits[q][s].Observed += o.Limits[q][s].Observed
			c.Limits[q][s].Enforced += o.Limits[q][s].Enforced
		}
	}
	c.Established += o.Established
	c.Closed += o.Closed
	c.Paced += o.Paced
	c.Held += o.Held
	c.Moved += o.Moved
	c.Regained += o.Regained
	c.Redialed += o.Redialed
	c.Overtaken += o.Overtaken
	c.Resent += o.Resent
	c.Lost += o.Lost
	c.Passed += o.Passed
	c.RelayedUp.Join(o.RelayedUp)
	c.RelayedDown.Join(o.RelayedDown)
	c.FromClients.Join(o.FromClients)
	c.FromUpstreams.Join(o.FromUpstreams)
	c.Clients.join(&o.Clients)
	c.Upstreams.join(&o.Upstreams)
	for i, n := range o.Drops {
		c.Drops[i] += n
	}
}

// DropOf maps a codec's error to a reason.
func DropOf(err error) Drop {
	switch {
	case errors.Is(err, codec.ErrDuplicate):
		return DropDuplicate
	case errors.Is(err, codec.ErrWindow):
		return DropWindow
	case errors.Is(err, codec.ErrUnexpected):
		return DropUnexpected
	case errors.Is(err, codec.ErrLimit):
		return DropLimit
	case errors.Is(err, codec.ErrRefused):
		return DropRefused
	case errors.Is(err, codec.ErrTooLarge):
		return DropTooLarge
	case errors.Is(err, codec.ErrFull):
		return DropQueueFull
	case errors.Is(err, codec.ErrMode):
		return DropUnfit
	case errors.Is(err, codec.ErrClosed):
		return DropClosing
	}
	return DropMalformed
}
