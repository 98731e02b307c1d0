package proxy

import (
	"context"
	"errors"
	"time"

	"tidegate/internal/netio"
)

// ErrStopped is told of a proxy, or a part of it, that does not run any more.
var ErrStopped = errors.New("the proxy has stopped")

// Figures are a proxy's totals at one moment. They are as large for 50,000 sessions as for none.
type Figures struct {
	Counters    Counters
	Sessions    []*Tally      // of each listener and protocol
	Drops       []*DropTally  // of each listener
	Sockets     []netio.Stats // of each loop
	ToClients   Samples
	ToUpstreams Samples
	Rules       []RuleCount
	Bans        int       // kept: those in force, and those that are over but remembered
	Turns       Histogram // what loops' turns took, one of turnSample counted
	Draining    bool
	Kernel      KernelFigures
}

// Figures copies the Relay's totals.
func (r *Relay) Figures() Figures {
	copied := r.tallies.clone()
	return Figures{
		Counters: r.counters, Sessions: copied.sessions, Drops: copied.drops,
		ToClients: r.toClients, ToUpstreams: r.toUpstreams,
		Draining: r.draining, Rules: r.RuleCounts(),
	}
}

// add joins those of another Relay.
func (f *Figures) add(o *Figures) {
	f.Counters.Add(&o.Counters)
	both := tallies{sessions: f.Sessions, drops: f.Drops}
	both.add(&tallies{sessions: o.Sessions, drops: o.Drops})
	f.Sessions, f.Drops = both.sessions, both.drops
	f.Sockets = append(f.Sockets, o.Sockets...)
	f.ToClients.add(&o.ToClients)
	f.ToUpstreams.add(&o.ToUpstreams)
	f.Turns.add(&o.Turns)
	f.Rules = addCounts(f.Rules, o.Rules)
	f.Draining = f.Draining || o.Draining
}

// Figures are the totals of all loops. It waits for each loop's turn, as long as ctx allows; an error tells that a loop
// has ended, or does not answer.
func (s *Server) Figures(ctx context.Context) (Figures, error) {
	all := Figures{Bans: s.options.Bans.Len()}
	for _, l := range s.loops {
		var one Figures
		err := l.consult(ctx, func(r *Relay, _ time.Time) {
			one = r.Figures()
			one.Sockets = []netio.Stats{l.sockets()}
			one.Turns = l.turns.Histogram
		})
		if err != nil {
			return Figures{}, err
		}
		all.add(&one)
	}
	all.Kernel = s.options.Kernel.figures()
	all.Counters.forwarded(&all.Kernel)
	return all, nil
}
