package proxy

import (
	"context"
	"time"

	"tidegate/internal/stray"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// JoinFleet lets the loops pass datagrams on to other nodes, and knows all clients from now on.
func (s *Server) JoinFleet(ctx context.Context, carrier stray.Carrier, secret stray.Secret) error {
	s.shared.Players.Join(carrier, secret)
	return s.Ask(ctx, new(relay.TellPlayers))
}

// HoldForFleet gives the loops a way to other nodes before they run, and until JoinFleet.
func (s *Server) HoldForFleet(carrier stray.Carrier, secret stray.Secret) {
	s.shared.Players.Join(carrier, secret)
}

// PlayerChanges returns the clients that have joined and left since the last call. With whole, or if there were too
// many changes, opened has all clients, and the result is whole.
func (s *Server) PlayerChanges(whole bool) (opened, closed []stray.Key, isWhole bool) {
	return s.shared.Players.Changes(whole)
}

// TakeStrays takes datagrams of this Server's clients that have arrived at another node; an empty node is this one. It
// owns their bytes.
func (s *Server) TakeStrays(node string, all []stray.Datagram) {
	s.eachLoop(all, func(r *relay.Relay, now time.Time, key stray.Key, d *stray.Datagram) {
		r.FromFleet(now, node, key, d)
	})
}

// SendAnswers sends another node's datagrams to clients whose datagrams arrive here. It owns their bytes.
func (s *Server) SendAnswers(node string, all []stray.Datagram) {
	s.eachLoop(all, func(r *relay.Relay, _ time.Time, key stray.Key, d *stray.Datagram) { r.SendAnswer(node, key, d) })
}

// eachLoop gives each datagram to the loop that has the client's session or should have it.
func (s *Server) eachLoop(all []stray.Datagram, do func(*relay.Relay, time.Time, stray.Key, *stray.Datagram)) {
	type keyed struct {
		key stray.Key
		*stray.Datagram
	}
	parts := make([][]keyed, len(s.loops))
	for i := range all {
		key, loop := s.shared.Players.Home(&all[i], len(s.loops))
		parts[loop] = append(parts[loop], keyed{key, &all[i]})
	}
	for i, part := range parts {
		if len(part) > 0 {
			s.loops[i].post(stats.WorkReceive, func(r *relay.Relay, now time.Time) {
				for _, d := range part {
					do(r, now, d.key, d.Datagram)
				}
			})
		}
	}
}
