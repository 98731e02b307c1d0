package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
)

// attendEvery is how often a Relay looks for servers for its waiting sessions.
const attendEvery = 50 * time.Millisecond

// waiting has a Relay's sessions that wait for servers, and the time when attend lets them ask.
type waiting struct {
	shard     shard
	dirty     *marked
	pools     *upstream.Pools
	seekers   []*seekers // by upstream
	inLine    int        // sessions that wait in a line of their upstream
	stirred   uint64     // pools.Changes at the last attend
	at        time.Time  // when attend is due
	attended  time.Time  // when attend was called last
	mustering *mustering // nil: no server's sessions are being held
}

// seekers are a Relay's sessions that wait for a server of one upstream. Held sessions that must keep their client
// IDs wait in the Pool's lines instead.
type seekers struct {
	pool *upstream.Pool
	held line // sessions that have lost their server
	new  line // sessions that have had no server yet
}

// of returns the seekers of a Pool.
func (w *waiting) of(pool *upstream.Pool) *seekers {
	for _, s := range w.seekers {
		if s.pool == pool {
			return s
		}
	}
	s := &seekers{pool: pool}
	w.seekers = append(w.seekers, s)
	return s
}

// len returns the number of sessions that wait for a server. Some of them may have left since.
func (w *waiting) len() int {
	n := w.inLine
	for _, s := range w.seekers {
		n += s.held.len() + s.new.len()
	}
	return n
}

// seek makes a session that has left its server wait for another.
func (w *waiting) seek(now time.Time, e *Entry) {
	s := &e.Value
	s.hold.next = time.Time{}
	if s.hold.ticket != nil {
		s.route.pool.Ready(s.hold.ticket)
	} else {
		w.of(s.route.pool).held.push(e)
	}
	w.at = now
	w.dirty.mark(e)
}

// await makes a new session wait for a server, after the held sessions.
func (w *waiting) await(now time.Time, e *Entry) {
	w.of(e.Value.route.pool).new.push(e)
	w.attendBy(now.Add(attendEvery))
	w.dirty.mark(e)
}

// queue gives a session that must keep its client ID a place in the line of its server.
func (w *waiting) queue(e *Entry) {
	s := &e.Value
	if !s.route.staysWithID(s.protocol) {
		return
	}
	s.hold.ticket = w.ticket(e)
	s.route.pool.Enqueue(s.hold.ticket, s.server)
	w.inLine++
}

// ticket returns a ticket for a held session.
func (w *waiting) ticket(e *Entry) *upstream.Ticket {
	s := &e.Value
	return &upstream.Ticket{Client: s.id, Addr: e.Key.Client.Addr(), To: s.hold.to, Shard: w.shard.index, Owner: e}
}

// endHold ends the search for a server: the session has one, or has ended.
func (w *waiting) endHold(s *link) {
	if s.hold != nil && s.hold.ticket != nil {
		s.route.pool.Dequeue(s.hold.ticket)
		w.inLine--
	}
	s.hold, s.upstream.Away = nil, false
}

// attendBy makes attend due at a time, or earlier.
func (w *waiting) attendBy(at time.Time) { w.at = codec.Earliest(w.at, at) }

// due returns when attend is due; zero means never.
func (w *waiting) due() time.Time {
	if w.pools.Changes() != w.stirred {
		return w.attended
	}
	return w.at
}

// choose picks the server that a held session asks, or returns nil.
func (s *seekers) choose(now time.Time, e *Entry) (server *upstream.Server) {
	h := e.Value.hold
	if h.to.IsValid() {
		server = s.pool.Take(h.to)
		h.to = netip.AddrPort{}
	}
	if server == nil {
		server = s.pool.PickForHeld(now, e.Key.Client.Addr())
	}
	return server
}

// isHeld reports whether a session still waits in a seekers' line.
func isHeld(s *link) bool {
	return s.life == seeking && s.hold.next.IsZero() && s.server == nil
}

// needsServer reports whether a session that is not held has asked no server yet, or none that it could reach. Such a
// session may wait in a seekers' line.
func (s *link) needsServer() bool {
	return (s.life.isJoining() || s.life == joined) && s.upstream.Conn == nil && s.client.Live()
}

// mustering is the walk that holds the sessions of a lost server.
type mustering struct {
	pool *upstream.Pool
	lost *upstream.Server // nil once the server is back
}

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
