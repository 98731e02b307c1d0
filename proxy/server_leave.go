package proxy

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/stray"
	"tidegate/proxy/stats"
)

// taking is the cost of a visit that takes a session out.
const taking = 32

// Leave admits no new clients from now on, and lets the present ones play on until they move or Run's context ends.
func (s *Server) Leave(ctx context.Context) error {
	for _, l := range s.loops {
		err := l.consult(ctx, stats.WorkDrain, func(r *Relay, now time.Time) {
			if !r.draining {
				r.draining, r.leaving, r.drainBy = true, true, now.Add(math.MaxInt64/2)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CopyPlayers returns copies of sessions of one loop that can move to other nodes: at most a number, of clients that
// choose accepts. Loops call the function.
func (s *Server) CopyPlayers(most int, choose func(stray.Key) bool) ([]stray.Session, error) {
	return s.eachPlayer(most, choose, func(r *Relay, now time.Time, e *entry, _ stray.Key) ([]byte, error) {
		return travelling(r, now, e)
	})
}

// TakeOutPlayers takes sessions of one loop out for other nodes, as TakeOut does: at most a number of them, whose
// clients choose accepts. gone is called for each one at once. Loops call both functions.
func (s *Server) TakeOutPlayers(most int, choose func(stray.Key) bool, gone func(stray.Key)) ([]stray.Session, error) {
	return s.eachPlayer(most, choose, func(r *Relay, now time.Time, e *entry, client stray.Key) ([]byte, error) {
		b, err := takeOut(r, now, e)
		if err == nil {
			gone(client)
		}
		return b, err
	})
}

// eachPlayer calls write for clients of one loop that other nodes can have, until it has a number of sessions.
func (s *Server) eachPlayer(most int, choose func(stray.Key) bool,
	write func(*Relay, time.Time, *entry, stray.Key) ([]byte, error)) (all []stray.Session, err error) {
	for _, l := range s.loops {
		// The walk must end, also if a caller gives up: the sessions that it has taken out are nowhere else.
		err := l.walk(context.Background(), stats.WorkMove, func(r *Relay, now time.Time, e *entry) int {
			if len(all) == most {
				return enough
			}
			p := &e.Value
			d := p.listener
			if d.stream || d.proxies != nil || !p.isKnown() {
				return looked
			}
			key := r.known.players.keyOf(d.id, e.Key.Client)
			if !choose(key) {
				return looked
			}
			at := ""
			if f, ok := p.face.(*farFace); ok {
				at = f.node
			}
			if b, err := write(r, now, e, key); err == nil {
				all = append(all, stray.Session{Client: key, At: at, Record: b})
			}
			return taking
		})
		if err != nil || len(all) > 0 {
			return all, err
		}
	}
	return nil, nil
}

// PlayersLeft returns the number of sessions.
func (s *Server) PlayersLeft(ctx context.Context) (n int, err error) {
	for _, l := range s.loops {
		if err := l.consult(ctx, stats.WorkList, func(r *Relay, _ time.Time) { n += r.table.Len() }); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// CheckPlayers returns for each session why this Server would not take it in, or nil.
func (s *Server) CheckPlayers(ctx context.Context, records [][]byte) []error {
	all, faults := readArrivals(records)
	needs := make([]bool, len(all)) // the session is lost without its source address
	err := s.loops[0].consult(ctx, stats.WorkMove, func(r *Relay, now time.Time) {
		fit := 0
		for i, a := range all {
			if faults[i] == nil {
				needs[i], faults[i] = a.check(now, r, fit)
			}
			if faults[i] == nil {
				fit++
			}
		}
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(all)) // the loop may still write the faults
	}
	ours := make(map[netip.Addr]bool)
	for i, a := range all {
		if faults[i] != nil || !needs[i] {
			continue
		}
		source := a.Source.Addr()
		if _, known := ours[source]; !known {
			ours[source] = isOurs(source)
		}
		if !ours[source] {
			faults[i] = fmt.Errorf("%w: its server knows it by the address %v, which this machine does not have, and its "+
				"route holds no sessions", ErrTravel, source)
		}
	}
	return faults
}

func readArrivals(records [][]byte) (all []*arrival, faults []error) {
	all, faults = make([]*arrival, len(records)), make([]error, len(records))
	for i, b := range records {
		all[i], faults[i] = readArrival(b)
	}
	return all, faults
}

// check returns why a Relay has no place for the session, or nil, and whether the session needs its source address.
func (a *arrival) check(now time.Time, r *Relay, before int) (needsSource bool, err error) {
	if err := a.room(r, before); err != nil {
		return false, err
	}
	if r.leaving {
		return false, ErrEnded
	}
	for _, route := range r.routes {
		if route.Name == a.Route.Name {
			needsSource = !route.Upstream.Transport.Transparent && (route.Mode == ModeRelay || route.Failover.Hold == 0)
		}
	}
	return needsSource, a.fits(now, r)
}

// PutInPlayers begins to take sessions in that another node has taken out, each at the loop that gets its client's
// datagrams from other nodes. The function that it returns waits for the loops until ctx is done, and has an error for
// each session that is not taken in. The other node takes these back. Answers go where the client's datagrams arrive:
// at the node of a session, or here if it is empty.
func (s *Server) PutInPlayers(moved []stray.Session) (faults func(ctx context.Context) []error) {
	return s.putIn(moved, true)
}

// PutBackPlayers takes sessions in again that this Server has taken out, as PutInPlayers does. A session whose source
// address is not free tries again with its client's datagrams, and is lost if it does not get it in time.
func (s *Server) PutBackPlayers(moved []stray.Session) (faults func(ctx context.Context) []error) {
	return s.putIn(moved, false)
}

func (s *Server) putIn(moved []stray.Session, returns bool) (faults func(ctx context.Context) []error) {
	records := make([][]byte, len(moved))
	for i := range moved {
		records[i] = moved[i].Record
	}
	all, errs := readArrivals(records)
	parts := make([][]int, len(s.loops))
	for i, a := range all {
		if errs[i] == nil {
			a.returns = returns
			_, loop := s.players.home(&stray.Datagram{Listener: a.listenerID(), Client: a.Client}, len(s.loops))
			parts[loop] = append(parts[loop], i)
		}
	}
	entered := make([]chan struct{}, len(s.loops))
	for n, part := range parts {
		if len(part) == 0 {
			continue
		}
		entered[n] = make(chan struct{})
		s.loops[n].post(stats.WorkMove, func(r *Relay, now time.Time) { // a loop that has ended does not do it
			defer close(entered[n])
			for _, i := range part {
				errs[i] = all[i].putIn(now, r, moved[i].At)
			}
		})
	}
	return func(ctx context.Context) []error {
		for n, done := range entered {
			if done == nil {
				continue
			}
			if err := s.loops[n].await(ctx, done); err != nil {
				return slices.Repeat([]error{err}, len(all)) // the loop may still write the faults
			}
		}
		return errs
	}
}

// putIn takes a session in that comes from another node. Its client's datagrams arrive at a node; empty: here.
func (a *arrival) putIn(now time.Time, r *Relay, node string) error {
	err := a.fits(now, r)
	if err == nil {
		err = r.arrivals.add(now, a)
	}
	l := listenerWith(a.listenerID(), r.listeners)
	if err != nil || l == nil {
		return err
	}
	if a = r.arrivals.take(now, l.name, a.Client); a == nil {
		return nil // another loop was faster
	}
	e, err := a.enter(now, r, l, l.faceAt(a.session.Local))
	if e != nil {
		r.ways.at = node
		r.follow(e)
		r.ways.at = ""
	}
	return err
}

// listenerID returns the number of the session's listener.
func (a *arrival) listenerID() uint64 { return stray.ListenerID(a.Listener, a.session.Listener.Port()) }

// isOurs reports whether this machine has an address.
func isOurs(a netip.Addr) bool {
	s, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return false
	}
	_ = s.Close() // it was never used
	return true
}

// keyOf returns the key of a client.
func (p *Players) keyOf(listener uint64, client netip.AddrPort) stray.Key {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.secret.Key(listener, client)
}
