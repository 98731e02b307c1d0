package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/stray"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// CopyPlayers returns copies of sessions of one loop that can move to other nodes: at most a number, of clients that
// choose accepts. Loops call the function.
func (s *Server) CopyPlayers(most int, choose func(stray.Key) bool) ([]stray.Session, error) {
	return s.move(&relay.Movers{Most: most, Choose: choose})
}

// TakeOutPlayers takes sessions of one loop out for other nodes: at most a number of them, whose clients choose
// accepts. gone is called for each one at once. Loops call both functions.
func (s *Server) TakeOutPlayers(most int, choose func(stray.Key) bool, gone func(stray.Key)) ([]stray.Session, error) {
	return s.move(&relay.Movers{Most: most, Choose: choose, Gone: gone})
}

func (s *Server) move(m *relay.Movers) ([]stray.Session, error) {
	// The walk must end, also if a caller gives up: the sessions that it has taken out are nowhere else.
	err := s.Ask(context.Background(), m)
	return m.Found, err
}

// PlayersLeft returns the number of sessions.
func (s *Server) PlayersLeft(ctx context.Context) (n int, err error) {
	for _, l := range s.loops {
		if err := l.consult(ctx, stats.WorkList, func(r *relay.Relay, _ time.Time) { n += r.Len() }); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// CheckPlayers returns for each session why this Server would not take it in, or nil.
func (s *Server) CheckPlayers(ctx context.Context, records [][]byte) []error {
	all, faults := readArrivals(time.Now(), records)
	needs := make([]bool, len(all)) // the session is lost without its source address
	err := s.loops[0].consult(ctx, stats.WorkMove, func(r *relay.Relay, now time.Time) {
		fit := 0
		for i, a := range all {
			if faults[i] == nil {
				needs[i], faults[i] = a.Check(now, r, fit)
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
				"route holds no sessions", relay.ErrTravel, source)
		}
	}
	return faults
}

func readArrivals(now time.Time, records [][]byte) (all []*relay.Arrival, faults []error) {
	all, faults = make([]*relay.Arrival, len(records)), make([]error, len(records))
	for i, b := range records {
		all[i], faults[i] = relay.ReadArrival(now, b)
	}
	return all, faults
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
	all, errs := readArrivals(time.Now(), records)
	parts := make([][]int, len(s.loops))
	for i, a := range all {
		if errs[i] == nil {
			a.Returns = returns
			_, loop := s.shared.Players.Home(&stray.Datagram{Listener: a.ListenerID(), Client: a.Client}, len(s.loops))
			parts[loop] = append(parts[loop], i)
		}
	}
	entered := make([]chan struct{}, len(s.loops))
	for n, part := range parts {
		if len(part) == 0 {
			continue
		}
		entered[n] = make(chan struct{})
		s.loops[n].post(stats.WorkMove, func(r *relay.Relay, now time.Time) { // a loop that has ended does not do it
			defer close(entered[n])
			for _, i := range part {
				errs[i] = all[i].PutIn(now, r, moved[i].At)
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

// isOurs reports whether this machine has an address.
func isOurs(a netip.Addr) bool {
	s, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return false
	}
	_ = s.Close() // it was never used
	return true
}
