package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/fleet"
	"tidegate/internal/stray"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// fleetGames are the game servers, the players and the limits of a proxy, as its fleet sees them: fleet.GameServers,
// fleet.Players and fleet.Budgets have the promises of the methods.
type fleetGames struct {
	*proxy.Server
	unrouted func() []fleet.ServerCount // servers that no route reaches; nil: none
	lend     func(join []byte)          // takes a join of another node's; nil: none
}

// JoinFleet implements fleet.Players.
func (g fleetGames) JoinFleet(ctx context.Context, carrier stray.Carrier, secret stray.Secret) error {
	g.HoldForFleet(carrier, secret)
	return g.Ask(ctx, relay.TellPlayers())
}

// HoldForFleet implements fleet.Players.
func (g fleetGames) HoldForFleet(carrier stray.Carrier, secret stray.Secret) {
	g.Shared().Players.Join(carrier, secret)
}

// PlayerChanges implements fleet.Players.
func (g fleetGames) PlayerChanges(whole bool) (opened, closed []stray.Key, isWhole bool) {
	return g.Shared().Players.Changes(whole)
}

// TakeStrays implements fleet.Players.
func (g fleetGames) TakeStrays(node string, all []stray.Datagram) {
	g.Begin(g.Shared().TakeStrays(node, all))
}

// SendAnswers implements fleet.Players.
func (g fleetGames) SendAnswers(node string, all []stray.Datagram) {
	g.Begin(g.Shared().SendAnswers(node, all))
}

// CopyPlayers implements fleet.Players. Loops call the function.
func (g fleetGames) CopyPlayers(most int, choose func(stray.Key) bool) ([]stray.Session, error) {
	return g.TakeOutPlayers(most, choose, nil)
}

// TakeOutPlayers implements fleet.Players. Loops call both functions.
func (g fleetGames) TakeOutPlayers(
	most int, choose func(stray.Key) bool, gone func(stray.Key),
) ([]stray.Session, error) {
	q := &relay.Movers{Most: most, Choose: choose, Gone: gone}
	// The walk must end, also if a caller gives up: the sessions that it has taken out are nowhere else.
	err := g.Ask(context.Background(), q)
	return q.Found, err
}

// PlayersLeft implements fleet.Players.
func (g fleetGames) PlayersLeft(ctx context.Context) (n int, err error) {
	if err := g.Ask(ctx, relay.CountSessions(&n)); err != nil {
		return 0, err // a loop may still write n
	}
	return n, nil
}

// CheckPlayers implements fleet.Players.
func (g fleetGames) CheckPlayers(ctx context.Context, records [][]byte) []error {
	q := relay.NewCheck(time.Now(), records)
	if err := g.Ask(ctx, q); err != nil {
		return slices.Repeat([]error{err}, len(records)) // the loop may still write the faults
	}
	ours := make(map[netip.Addr]bool)
	for i, source := range q.Sources {
		if !source.IsValid() {
			continue
		}
		if _, known := ours[source]; !known {
			ours[source] = isOurs(source)
		}
		if !ours[source] {
			q.Faults[i] = fmt.Errorf("%w: its server knows it by the address %v, which this machine does not have, and its "+
				"route holds no sessions", relay.ErrTravel, source)
		}
	}
	return q.Faults
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

// PutInPlayers implements fleet.Players.
func (g fleetGames) PutInPlayers(moved []stray.Session) (faults func(ctx context.Context) []error) {
	return g.putIn(moved, true)
}

// PutBackPlayers implements fleet.Players. A session whose source address is not free tries again with its client's
// datagrams, and is lost if it does not get it in time.
func (g fleetGames) PutBackPlayers(moved []stray.Session) (faults func(ctx context.Context) []error) {
	return g.putIn(moved, false)
}

func (g fleetGames) putIn(moved []stray.Session, returns bool) (faults func(ctx context.Context) []error) {
	q, all := g.Shared().PutInPlayers(time.Now(), moved, returns)
	wait := g.Begin(q)
	return func(ctx context.Context) []error {
		if err := wait(ctx); err != nil {
			return slices.Repeat([]error{err}, len(moved)) // the loop may still write the faults
		}
		return all
	}
}

// ChargeSpending implements fleet.Budgets. It does not wait for the loops.
func (g fleetGames) ChargeSpending(reports []ratelimit.Spending, p ratelimit.Peers) {
	g.Begin(relay.ChargeSpending(reports, p))
}

// TakeSpending implements fleet.Budgets: the largest uses come first.
func (g fleetGames) TakeSpending(ctx context.Context, most int, p ratelimit.Peers) ([]ratelimit.Spending, error) {
	var all []ratelimit.Spending
	if err := g.Ask(ctx, relay.TakeSpending(p, &all)); err != nil {
		return nil, err
	}
	return ratelimit.Top(all, most), nil
}
