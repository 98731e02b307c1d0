package relay

import (
	"sync"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay/saved"
	"tidegate/session"
)

// A walk over all sessions may cost a loop milliseconds for each ten thousand of them. So a turn visits a slice of
// the sessions, and the next turns go on. A visit returns its cost.
const (
	turnSlice = 1024 // cost of the visits in a turn
	looked    = 1    // the visit only looked at the session
	copied    = 2    // the visit copied the session's state, or changed a map
	asked     = 8    // the visit asked the kernel about the session, and copied its state
	acted     = 8    // the visit changed the session, which has more to send now
	enough    = 0    // the walk is over
)

// costOfCopy returns the cost of a visit that copies the session's state after an update.
func (s *link) costOfCopy() int {
	if s.shortcut != nil {
		return asked
	}
	return copied
}

// Visit is called for a session, and returns the cost.
type Visit func(r *Relay, now time.Time, e *Entry) int

// walk is a visit to all sessions that a Relay has at its start.
type walk struct {
	at    *session.Walk[link]
	visit Visit
	done  func(now time.Time) // nil: none
}

// walks are a Relay's walks under way.
type walks struct {
	list []*walk
	left int       // cost that this turn may still spend
	due  time.Time // when the next slice is due; zero: no walk is under way
}

func (w *walk) end(now time.Time) {
	if w.done != nil {
		w.done(now)
	}
}

// rounds are repeated walks with the same purpose. A request during a walk leads to one further walk, since the
// present one has already passed some sessions.
type rounds struct{ walking, again bool }

// Exporter writes the sessions of a Relay as records, at one moment. The Relay can go on afterwards, for example if a
// successor fails.
type Exporter struct {
	relay   *Relay
	now     time.Time
	places  map[*Entry]int // of sessions that wait for a server, from 1
	closing map[*Entry][]*closingConn
	copied  bool // the importer has the last pre-copy
	naming  netio.Handover
}

// Importer makes the sessions of another Relay again. Connections are restored later (pending.go).
type Importer struct {
	relay   *Relay
	now     time.Time // stands for the moment of saving
	waiting []waiter
	gone    []*listener // that the settings no longer have
	routes  []saved.Route
	made    map[string]*route // routes that the settings no longer have
	copies  map[session.ID]*sessionCopy
	played  int       // rehearsed sessions
	room    candidate // memory for the session that is imported
}

// waiter is an imported session that waits in a line for a server.
type waiter struct {
	place int
	entry *Entry
}

// candidate is a session that is to be imported.
type candidate struct {
	saved.Session
	*link             // of entry
	entry   *Entry    // not in the table yet
	at      time.Time // stands for the moment of saving
	late    saved.Terminated
	given   []netio.Socket // all sockets of the session
	sockets []netio.Socket // not assigned yet
	closing []*closingConn
}

func newCandidate(at time.Time, sockets []netio.Socket) candidate {
	e := new(Entry)
	return candidate{link: &e.Value, entry: e, at: at, given: sockets, sockets: sockets}
}

func (c *candidate) key() session.Key {
	return session.Key{Listener: c.listener.index, Client: c.Client}
}

// sessionCopy is a session from a pre-copy.
type sessionCopy struct {
	candidate
	names   []byte // of its sockets
	ready   bool   // checked and restored: it only has to enter
	entered bool
	kept    bool // unchanged at the standstill
}

// precopy is the state of a Relay's pre-copy.
type precopy struct {
	last  uint8 // the last round: each upgrade has one
	round uint8 // the present round; 0: none
	// naming names the sockets. It is nil in tests.
	naming netio.Handover
	pass   *walk     // under way; nil: none
	batch  []byte    // of all pieces of the pass
	room   []byte    // for a record
	began  time.Time // time of the piece
	count  int       // sessions in the piece
}

// start begins a round: sessions that earlier rounds have copied count as changed.
func (c *precopy) start(sockets netio.Poller) {
	c.end()
	if c.last++; c.last == 0 {
		c.last = 1
	}
	*c = precopy{last: c.last, round: c.last}
	c.naming, _ = sockets.(netio.Handover)
}

// stop ends the round. All sessions count as changed.
func (c *precopy) stop() {
	c.end()
	*c = precopy{last: c.last}
}

// has reports whether the present round has copied the session, and the session is unchanged.
func (c *precopy) has(s *link) bool { return s.copied != 0 && s.copied == c.round }

// end ends the pass.
func (c *precopy) end() {
	if c.pass != nil {
		c.pass.at.Stop()
		c.pass = nil
	}
}

// stacked is the end of a session that has a stack: a client or a call.
type stacked interface {
	// take lets the session go on, if there still is one.
	take(r *Relay, now time.Time)
}

// ready are the ends whose stacks have something for the loop. It is safe for concurrent use.
type ready struct {
	mu   sync.Mutex
	list []stacked
	last []stacked // the list before, for its memory
}

func (y *ready) put(g stacked) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.list = append(y.list, g)
}

// take returns the list. It is valid until the next call.
func (y *ready) take() []stacked {
	y.mu.Lock()
	defer y.mu.Unlock()
	clear(y.last)
	y.list, y.last = y.last[:0], y.list
	return y.last
}
