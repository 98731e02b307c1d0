package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
)

// Failover is how a route handles an established session whose server is lost. A server is lost when it falls silent,
// its host refuses datagrams, or it says that it stops.
type Failover struct {
	// Hold is how long the client is kept while the Relay looks for another server, or for the same one again. Reliable
	// messages of the client wait for the server that takes the session. It also gets the messages that the lost server
	// has not acknowledged. So each message arrives at least once. With 0, the client gets a goodbye at once and may
	// connect again.
	Hold time.Duration
	// Goodbyes makes a server's plain goodbye count as its loss. RakNet and RUDP have no other goodbye for a server that
	// stops, and none for a client that is kicked.
	Goodbyes bool
	// NewIDs lets a session go on with another Riptide client ID than the client knows. Without it the session ends.
	NewIDs bool
}

// isLoss reports whether the end of an upstream connection means a lost server, and not a server that rejects the
// client.
func (f *Failover) isLoss(why codec.Reason) bool {
	switch why {
	case codec.NoConnection, codec.TimedOut, codec.TransportError, codec.PoorConnection, codec.ServerStopped:
		return true
	case codec.Closed:
		return f.Goodbyes
	}
	return false
}

// hold is a session's state while it has no server, or is about to leave it.
type hold struct {
	since, until time.Time
	next         time.Time        // when the session is due; zero: after the next event
	to           netip.AddrPort   // the operator's choice of a server; zero: any
	ticket       *upstream.Ticket // its place in the line of its server; nil: any client ID will do
	departure    departure
}

// departure is the state of a session that leaves its server.
type departure struct {
	limit time.Time // latest time to leave
	acked time.Time // when the server had acknowledged everything
	heard time.Time // when the server last sent a reliable message
}

// knownClients are the other clients that a server has announced to a client, as Riptide does. The Relay keeps them
// only where a client may outlive its server. There are at most as many as client IDs.
type knownClients []uint16

// note notes that another client has joined or left.
func (c *knownClients) note(kind codec.EventKind, client uint16) {
	i := slices.Index(*c, client)
	switch {
	case kind == codec.Joined && i < 0:
		*c = append(*c, client)
	case kind == codec.Left && i >= 0:
		*c = slices.Delete(*c, i, i+1)
	}
}
