package relay

import (
	"net/netip"
	"time"

	"tidegate/internal/stray"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// fromFleet handles a client's datagram that arrived at another node. The session checks it as it checks a datagram
// that arrives here: its sender may be forged.
func (r *Relay) fromFleet(now time.Time, node string, key stray.Key, in *stray.Datagram) {
	l := listenerWith(in.Listener, r.listeners)
	if l == nil {
		return
	}
	r.drops.fate = stats.FateStray
	home := l.faceAt(in.Local)
	e := r.table.Get(now, session.Key{Listener: l.index, Client: in.Client})
	if e == nil {
		e = r.arrived(now, l, home, in.Client)
	}
	if e == nil {
		e = l.find(in.Client)
	}
	r.ways.at = node
	switch {
	case e != nil && e.Value.edge != nil:
		r.fromEdge(now, e, home, in.Client, in.Bytes)
	case e == nil:
		if r.ways.passAgain(key, in) {
			r.drops.has(stats.FateTaken)
		}
	case !e.Value.isRelayed():
		r.fromTerminated(now, e, home, in.Bytes)
	case r.drops.passes(now, l, in.Client, len(in.Bytes), r.guard.MayRelay(now, &e.Value.meter, len(in.Bytes))):
		r.passUp(now, e, in.Bytes)
	}
	r.ways.at = ""
	r.counters.Clients.Receive(in.Bytes, r.drops.fate)
}

// sendAnswer sends another node's datagram to a client whose datagrams arrive here.
func (r *Relay) sendAnswer(node string, key stray.Key, d *stray.Datagram) {
	carrier := r.ways.players.carrier.Load()
	if l := listenerWith(d.Listener, r.listeners); l != nil && carrier != nil && (*carrier).Has(node, key) {
		r.counters.Clients.Out.Count(d.Bytes)
		r.sockets.Send(l.faceAt(d.Local), d.Client, d.Bytes)
	}
}

// follow sends a session's further answers where its client's last accepted datagram has arrived.
func (r *Relay) follow(e *Entry) {
	s := &e.Value
	if l := s.listener; l.arriving != r.ways.at {
		l.arriving, l.movedAt = r.ways.at, s.at(s.heard)
	}
	if r.ways.at == "" && s.node() == "" {
		return
	}
	if face := r.ways.face(s.home(), r.ways.at); face != s.face {
		switch {
		case s.isRelayed():
			r.offload.recall(e) // the kernel would answer from here
		case !s.isPending():
			s.resent = s.client.Conn.Stats().Resent
		}
		s.face = face
	}
}

// This file has the requests of a fleet.

// TellPlayers makes clients known that were here before the fleet.
func TellPlayers() Request {
	return &order{work: stats.WorkList, do: func(*Relay, time.Time) Visit { return tellPlayers }}
}

// tellPlayers is the visit for TellPlayers.
func tellPlayers(r *Relay, _ time.Time, e *Entry) int {
	if l := e.Value.listener; e.Value.isKnown() && l.seesClients() {
		r.ways.players.opened(l.id, e.Key.Client, r.shard.index)
		if g := e.Value.edge; g != nil {
			for _, at := range g.sources.Append(nil) {
				r.ways.players.opened(l.id, at, r.shard.index)
			}
		}
	}
	return copied
}

// ChargeSpending charges sources what they have used of limits at other nodes. It takes several reports of one source
// as those of several nodes.
func ChargeSpending(reports []ratelimit.Spending, p ratelimit.Peers) Request {
	return &order{work: stats.WorkLimits, do: func(r *Relay, now time.Time) Visit {
		r.guard.Charge(now, reports, p)
		return nil
	}}
}

// TakeSpending adds what sources have used of their limits since the last such request. A Relay has its share of each
// rate, so the use of all siblings adds up.
func TakeSpending(p ratelimit.Peers, used *[]ratelimit.Spending) Request {
	return &order{work: stats.WorkLimits, do: func(r *Relay, _ time.Time) Visit {
		for _, s := range r.guard.Report(p, r.identities.next) {
			s.Used /= time.Duration(r.shard.of)
			*used = append(*used, s)
		}
		return nil
	}}
}

// Movers choose sessions of one Relay that other nodes can have, of clients whose address the fleet sees.
type Movers struct {
	ofAll
	Most   int                  // number of sessions
	Choose func(stray.Key) bool // accepts a client
	Gone   func(stray.Key)      // is called when a session is taken out; nil: sessions are only copied
	Found  []stray.Session      // the answer
}

// Next implements Request.
func (m *Movers) Next(relays int) (index int, work stats.Work) {
	if len(m.Found) > 0 {
		return -1, stats.WorkMove
	}
	return m.after(relays), stats.WorkMove
}

func (m *Movers) put(*Relay, time.Time) Visit { return m.visit }

// visit writes down a session that moves, until there are enough.
func (m *Movers) visit(r *Relay, now time.Time, e *Entry) int {
	if len(m.Found) == m.Most {
		return enough
	}
	s := &e.Value
	l := s.listener
	if !l.seesClients() || !s.isKnown() || isStacked(s) {
		return looked
	}
	key := r.known.players.keyOf(l.id, e.Key.Client)
	if !m.Choose(key) {
		return looked
	}
	one := stray.Session{Client: key, At: s.node()}
	var err error
	if one.Record, err = travelling(r, now, e); err != nil {
		return taking
	}
	if m.Gone != nil {
		withdraw(r, now, e)
		m.Gone(key)
	}
	m.Found = append(m.Found, one)
	return taking
}

// spread is a request in pieces. Each Relay gets the pieces of its clients.
type spread struct {
	work   stats.Work
	pieces int
	home   func(piece, relays int) int // of a piece; negative: none
	do     func(r *Relay, now time.Time, piece int)
	parts  [][]int // the pieces of each Relay
	asked  int     // Relays so far
}

// Next implements Request. A Relay without pieces is not asked.
func (s *spread) Next(relays int) (index int, work stats.Work) {
	if s.parts == nil {
		s.parts = make([][]int, relays)
		for piece := range s.pieces {
			if n := s.home(piece, relays); n >= 0 {
				s.parts[n] = append(s.parts[n], piece)
			}
		}
	}
	for s.asked < relays {
		if s.asked++; len(s.parts[s.asked-1]) > 0 {
			return s.asked - 1, s.work
		}
	}
	return -1, s.work
}

// Err implements Request: no Relay refuses such a request.
func (s *spread) Err(asking error) error { return asking }

func (s *spread) put(r *Relay, now time.Time) Visit {
	for _, piece := range s.parts[r.shard.index] {
		s.do(r, now, piece)
	}
	return nil
}

// TakeStrays takes datagrams of this Server's clients that have arrived at another node; an empty node is this one. It
// owns their bytes.
func (s *Shared) TakeStrays(node string, all []stray.Datagram) Request {
	return s.spreadStrays(all, func(r *Relay, now time.Time, key stray.Key, d *stray.Datagram) {
		r.fromFleet(now, node, key, d)
	})
}

// SendAnswers sends another node's datagrams to clients whose datagrams arrive here. It owns their bytes.
func (s *Shared) SendAnswers(node string, all []stray.Datagram) Request {
	return s.spreadStrays(all, func(r *Relay, _ time.Time, key stray.Key, d *stray.Datagram) {
		r.sendAnswer(node, key, d)
	})
}

// spreadStrays gives each datagram to the Relay that has the client's session or should have it.
func (s *Shared) spreadStrays(all []stray.Datagram, do func(*Relay, time.Time, stray.Key, *stray.Datagram)) Request {
	keys := make([]stray.Key, len(all))
	return &spread{
		work: stats.WorkReceive, pieces: len(all),
		home: func(i, relays int) (home int) {
			keys[i], home = s.Players.home(&all[i], relays)
			return home
		},
		do: func(r *Relay, now time.Time, i int) { do(r, now, keys[i], &all[i]) },
	}
}

// PutInPlayers takes sessions in that have left another node, each at the Relay that gets its client's datagrams from
// other nodes. Answers go where the client's datagrams arrive: at the node of a session, or here if it is empty. Each
// session that is not taken in has an error. With returns, the other node takes it back if it would be lost here.
func (s *Shared) PutInPlayers(now time.Time, moved []stray.Session, returns bool) (q Request, faults []error) {
	all := make([]*Arrival, len(moved))
	faults = make([]error, len(moved))
	for i := range moved {
		if all[i], faults[i] = readArrival(now, moved[i].Record); faults[i] == nil {
			all[i].returns = returns
		}
	}
	return &spread{
		work: stats.WorkMove, pieces: len(all),
		home: func(i, relays int) (home int) {
			if faults[i] != nil {
				return -1
			}
			_, home = s.Players.home(&stray.Datagram{Listener: all[i].listenerID(), Client: all[i].Client}, relays)
			return home
		},
		do: func(r *Relay, now time.Time, i int) { faults[i] = all[i].putIn(now, r, moved[i].At) },
	}, faults
}

// CheckPlayers asks one Relay, for its siblings too, whether it would take in sessions.
type CheckPlayers struct {
	Faults  []error      // the answer: why a session is not taken in; nil: it would be
	Sources []netip.Addr // the source address without which a session would be lost; zero: it needs none
	all     []*Arrival
	asked   bool
}

// NewCheck returns a request about the records of sessions.
func NewCheck(now time.Time, records [][]byte) *CheckPlayers {
	q := &CheckPlayers{
		Faults: make([]error, len(records)), Sources: make([]netip.Addr, len(records)), all: make([]*Arrival, len(records)),
	}
	for i, b := range records {
		q.all[i], q.Faults[i] = readArrival(now, b)
	}
	return q
}

// Next implements Request.
func (q *CheckPlayers) Next(int) (index int, work stats.Work) {
	if q.asked {
		return -1, stats.WorkMove
	}
	q.asked = true
	return 0, stats.WorkMove
}

// Err implements Request.
func (q *CheckPlayers) Err(asking error) error { return asking }

func (q *CheckPlayers) put(r *Relay, now time.Time) Visit {
	fit := 0
	for i, a := range q.all {
		needs := false
		if q.Faults[i] == nil {
			needs, q.Faults[i] = a.check(now, r, fit)
		}
		if q.Faults[i] != nil {
			continue
		}
		if fit++; needs {
			q.Sources[i] = a.Source.Addr()
		}
	}
	return nil
}
