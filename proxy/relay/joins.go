package relay

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/stray"
	"tidegate/proxy/relay/saved"
)

// Notes of drops at an edge.
var (
	errNoJoin    = errors.New("no join has these names: it is over, or the client has not joined over HTTP")
	errIntegrity = errors.New("the integrity is not made with the server's password")
	errOtherJoin = errors.New("the address belongs to the session of another join")
	errNoSource  = errors.New("the address has not shown that it is the client's")
)

const (
	// edgeQuiet is how long a session must be silent before another join of its address ends it. A client checks its
	// path at least every 6.5 s, so a forger with a join of its own ends no living session.
	edgeQuiet = 7 * time.Second
	// edgeClose is how long a session may be silent after its client seems to have closed it. The word for that is
	// encrypted, so it is a hint.
	edgeClose = 5 * time.Second
)

// joinTable has the joins of a listener's NetherNet clients, and the sessions that came of them.
type joinTable struct {
	table     *joining.Tickets
	sessions  map[*joining.Ticket]*Entry
	sources   map[netip.AddrPort]*Entry // further addresses of the clients here: the table has the first
	elsewhere map[netip.AddrPort]int    // loops of addresses whose sessions are there
	addresses []netip.AddrPort          // of a client, for a moment
	integrity *nethernet.Integrity
	binding   nethernet.Binding // of the present datagram
	known     *known            // the Relay's
}

// maxElsewhere bounds the addresses that a loop knows of other loops' sessions. They are learned again within seconds.
const maxElsewhere = 4096

func newJoinTable(table *joining.Tickets, so *joinTable, k *known) *joinTable {
	if table == nil || so != nil && so.table == table {
		return so // sessions of a listener that takes no more joins play on
	}
	return &joinTable{
		table: table, sessions: make(map[*joining.Ticket]*Entry), sources: make(map[netip.AddrPort]*Entry),
		elsewhere: make(map[netip.AddrPort]int), integrity: nethernet.NewIntegrity(), known: k,
	}
}

// edge is the state of a NetherNet client's session.
type edge struct {
	ticket  *joining.Ticket
	sources nethernet.Sources
	faces   map[netip.AddrPort]netio.Socket // where each source is answered; nil: all where the session is
	closes  bool                            // the client's last datagram seems to close the connection
	why     codec.Reason                    // of the end of a relayed session
}

// verify reads a request, and finds the join whose password it was made with.
func (j *joinTable) verify(now time.Time, datagram []byte) (*joining.Ticket, error) {
	if err := j.binding.Parse(datagram); err != nil {
		return nil, err
	}
	return j.verifyParsed(now)
}

// verifyParsed is verify for a message in binding.
func (j *joinTable) verifyParsed(now time.Time) (*joining.Ticket, error) {
	b := &j.binding
	if b.Class != nethernet.Request || !b.IsWhole() {
		return nil, codec.ErrMalformed
	}
	t := j.table.Find(now, b.Username)
	switch {
	case t == nil:
		return nil, errNoJoin
	case !j.integrity.Verify(b, t.Told().ServerPassword):
		return nil, errIntegrity
	}
	return t, nil
}

// asks reports whether the request in binding is one of a waiting session's client, at a new address. A stranger's or a
// recorded one would take the session to the stranger's loop.
func (j *joinTable) asks(v *saved.Session, from netip.AddrPort) bool {
	if !j.integrity.Verify(&j.binding, v.Edge.Ticket.ServerPassword) {
		return false
	}
	known := nethernet.RestoreSources(0, v.Edge.Sources, v.Edge.Asked)
	return known.Request(0, from, &j.binding) == nil
}

// admit says why a datagram is not the session's client's, or nil. A new address becomes the client's by a request that
// the password has made.
func (j *joinTable) admit(now time.Time, e *Entry, from netip.AddrPort, datagram []byte) error {
	g, b := e.Value.edge, &j.binding
	malformed := b.Parse(datagram)
	if !nethernet.IsSTUN(datagram) || b.Class != nethernet.Request {
		if !g.sources.Heard(e.Value.since(now), from, datagram) {
			return errNoSource
		}
		return nil // DTLS, or a response to the server's own check
	} else if malformed != nil {
		return malformed
	}
	t, err := j.verifyParsed(now)
	switch {
	case err != nil:
		return err
	case t != g.ticket:
		return errOtherJoin
	}
	before := g.sources.Append(j.addresses[:0])
	j.addresses = before
	if err := g.sources.Request(e.Value.since(now), from, b); err != nil {
		return err
	}
	if !slices.Contains(before, from) {
		j.leave(e, before)
		j.meet(e)
	}
	return nil
}

// meet notes all addresses of a session's client. The kernel and the fleet know the first one by the session.
func (j *joinTable) meet(e *Entry) {
	j.addresses = e.Value.edge.sources.Append(j.addresses[:0])
	for _, at := range j.addresses {
		if at != e.Key.Client {
			j.sources[at] = e
			j.known.meet(e.Value.listener, at)
		}
	}
}

// leave forgets addresses of a session's client.
func (j *joinTable) leave(e *Entry, addresses []netip.AddrPort) {
	for _, at := range addresses {
		if at != e.Key.Client {
			if j.sources[at] == e {
				delete(j.sources, at)
			}
			j.known.leave(e.Value.listener, at)
		}
	}
}

// forget ends the join of a session that has ended.
func (j *joinTable) forget(now time.Time, e *Entry, stage joining.Stage, why string) {
	g := e.Value.edge
	j.leave(e, g.sources.Append(j.addresses[:0]))
	delete(j.sessions, g.ticket)
	j.table.End(now, g.ticket, stage, why)
	clientStackOf(&e.Value).abandon()
}

// withdraw takes a session out that another process goes on with.
func (j *joinTable) withdraw(e *Entry) {
	j.leave(e, e.Value.edge.sources.Append(j.addresses[:0]))
	delete(j.sessions, e.Value.edge.ticket)
	j.table.Withdraw(e.Value.edge.ticket)
}

func saveEdge(now time.Time, s *link) *saved.Edge {
	g := s.edge
	return &saved.Edge{
		Ticket: s.listener.joins.table.SaveOne(now, g.ticket), Sources: g.sources.Append(nil), Asked: g.sources.Asked(nil),
	}
}

// restoreEdge gives a session its join and its client's addresses again.
func restoreEdge(now time.Time, e *Entry, v *saved.Edge, loop int) {
	s := &e.Value
	j := s.listener.joins
	g := &edge{
		ticket:  j.table.RestoreOne(now, &v.Ticket, loop),
		sources: nethernet.RestoreSources(s.heard, v.Sources, v.Asked),
	}
	s.edge, j.sessions[g.ticket] = g, e
	j.meet(e)
}

// find returns the session that a further address of a client belongs to, or nil.
func (l *listener) find(from netip.AddrPort) *Entry {
	if l.joins == nil {
		return nil
	}
	return l.joins.sources[from]
}

// isElsewhere reports whether another loop has the session of an address.
func (l *listener) isElsewhere(from netip.AddrPort) bool {
	if l.joins == nil {
		return false
	}
	_, ok := l.joins.elsewhere[from]
	return ok
}

// Handed are datagrams that one loop hands over to another, which has their session. A NetherNet client sends from
// several addresses, and the kernel chooses a loop for each. It is safe for concurrent use.
type Handed struct {
	count atomic.Int32 // so that loops need no lock
	mu    sync.Mutex
	bags  map[int][]handedOver // by loop
}

// handedOver is a datagram on its way to another loop, or on its way back: that loop has no session of its address.
type handedOver struct {
	stray.Datagram
	from int
	back bool
}

// maxHanded bounds the datagrams that wait for a loop. It takes them in its next turn.
const maxHanded = 1024

func (h *Handed) put(loop int, d handedOver) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bags == nil {
		h.bags = make(map[int][]handedOver)
	}
	if len(h.bags[loop]) >= maxHanded {
		return false
	}
	h.bags[loop] = append(h.bags[loop], d)
	h.count.Add(1)
	return true
}

func (h *Handed) take(loop int) []handedOver {
	if h.count.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.bags[loop]
	delete(h.bags, loop)
	h.count.Add(-int32(len(all)))
	return all
}

// Joiner joins the NetherNet servers of an Upstream.
type Joiner interface {
	// Join begins to ask a server over HTTP. It calls wake from any goroutine when the Question has the answer.
	Join(server netip.AddrPort, wake func()) Question
	// Dial begins a stack towards a server that has answered. It calls wake when the stack's Take has something.
	Dial(p *nethernet.Peer, wake func()) (nethernet.Stack, error)
}

// Question is a join that waits for its server.
type Question interface {
	// Take returns the answer, or why there is none. Both are nil while the server thinks.
	Take() (*nethernet.Answer, error)
	// Abandon ends the wait.
	Abandon()
}

// call is a session's way to a NetherNet server.
type call struct {
	of       *Entry // nil: abandoned
	all      map[*call]struct{}
	question Question
	wake     func()
	nethernet.Call
}

// calls are the calls of a Relay.
type calls struct {
	all       map[*call]struct{}
	integrity *nethernet.Integrity
}

// abandon frees what a call has.
func (c *call) abandon() {
	if c != nil {
		c.of = nil
		delete(c.all, c)
		c.question.Abandon()
		c.Abandon()
	}
}

// Stacks begins the stacks of a listener's clients.
type Stacks interface {
	// Accept begins a stack for a client. It calls wake from any goroutine when the stack's Take has something.
	Accept(p *nethernet.Peer, wake func()) (nethernet.Stack, error)
}

// clientStack is the stack of a session's client.
type clientStack struct {
	*nethernet.Conn
	of *Entry // nil: the session is over
}

// clientStackOf returns the stack of a session's client, or nil.
func clientStackOf(s *link) *clientStack {
	if s.isRelayed() {
		return nil
	}
	return s.stack
}

// isStacked reports whether an end of a session has a stack. Such a session cannot be saved.
func isStacked(s *link) bool { return clientStackOf(s) != nil || !s.isRelayed() && s.call != nil }

// abandon frees what a session with a stack has.
func (c *clientStack) abandon() {
	if c != nil {
		c.Abandon()
		c.of = nil
	}
}
