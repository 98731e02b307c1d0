package proxy

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
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

// TakeOutPlayers takes sessions out for other nodes, as TakeOut does: at most a number of them, whose clients choose
// accepts. gone is called for each one at once. left counts the others. Both functions are called by loops.
func (s *Server) TakeOutPlayers(most int, choose func(stray.Key) bool, gone func(stray.Key)) (all []stray.Session,
	left int, err error) {
	seen := 0
	for _, l := range s.loops {
		err := l.walk(context.Background(), stats.WorkMove, func(r *Relay, now time.Time, e *entry) int {
			p := &e.Value
			d := p.listener
			if seen++; len(all) == most || d.stream || d.proxies != nil || !p.isKnown() {
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
			b, err := takeOut(r, now, e)
			if err != nil {
				return taking
			}
			gone(key)
			all = append(all, stray.Session{Client: key, At: at, Record: b})
			return taking
		})
		if err != nil {
			return all, seen - len(all), err
		}
	}
	return all, seen - len(all), nil
}

// CheckPlayer returns why this Server would not take a session in, or nil.
func (s *Server) CheckPlayer(ctx context.Context, b []byte) error {
	a, err := readArrival(b)
	if err != nil {
		return err
	}
	var full error
	needsSource := false // the session is lost without its source address
	err = s.loops[0].consult(ctx, stats.WorkMove, func(r *Relay, now time.Time) {
		if full = r.table.Room(a.Client.Addr()); full == nil && r.leaving {
			full = ErrEnded
		}
		if full == nil {
			full = a.fits(now, r)
		}
		for _, route := range r.routes {
			if route.Name == a.Route.Name {
				needsSource = !route.Upstream.Transport.Transparent &&
					(route.Mode == ModeRelay || route.Failover.Hold == 0)
			}
		}
	})
	switch {
	case err != nil:
		return err
	case full == nil && needsSource && !isOurs(a.Source.Addr()):
		return fmt.Errorf("%w: its server knows it by the address %v, which this machine does not have, and its route "+
			"holds no sessions", ErrTravel, a.Source.Addr())
	}
	return full
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

// PutInPlayer is PutIn, and the session goes on at once if its source address is free.
func (s *Server) PutInPlayer(ctx context.Context, b []byte) error {
	a, err := s.putIn(ctx, b)
	if err != nil {
		return err
	}
	at := a.session.Listener.Port()
	d := stray.Datagram{Listener: stray.ListenerID(a.Listener, at), Client: a.Client}
	_, loop := s.players.home(&d, len(s.loops))
	ended := !s.loops[loop].post(stats.WorkMove, func(r *Relay, now time.Time) {
		if l := listenerWith(d.Listener, r.listeners); l != nil {
			r.arrived(now, l, l.faceAt(a.session.Local), a.Client)
		}
	})
	if ended {
		return fmt.Errorf("%w: %w", ErrTravel, ErrStopped)
	}
	return nil
}

// keyOf returns the key of a client.
func (p *Players) keyOf(listener uint64, client netip.AddrPort) stray.Key {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.secret.Key(listener, client)
}
