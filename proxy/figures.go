package proxy

import (
	"context"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

// Figures are a proxy's totals at one moment. Their size does not grow with the number of sessions.
type Figures struct {
	Counters    stats.Counters
	Sessions    []*stats.Tally     // by listener and protocol
	Drops       []*stats.DropTally // by listener
	Sockets     []netio.Stats      // by loop
	ToClients   stats.Samples
	ToUpstreams stats.Samples
	Rules       []RuleCount
	Bans        int              // bans in force, and past bans that are still remembered
	Turns       stats.Histogram  // durations of loops' turns, one in 16 counted
	Longest     []stats.LongTurn // by loop, of the last minute or two
	Draining    bool
	Kernel      stats.KernelFigures
}

// Figures copies the Relay's totals.
func (r *Relay) Figures() Figures {
	copied := r.tallies.Clone()
	return Figures{
		Counters: r.counters, Sessions: copied.Sessions, Drops: copied.Drops,
		ToClients: r.samples.toClients, ToUpstreams: r.samples.toUpstreams,
		Draining: r.draining, Rules: r.guard.ruleCounts(),
	}
}

// add joins the totals of another Relay.
func (f *Figures) add(o *Figures) {
	f.Counters.Add(&o.Counters)
	both := stats.Tallies{Sessions: f.Sessions, Drops: f.Drops}
	both.Add(&stats.Tallies{Sessions: o.Sessions, Drops: o.Drops})
	f.Sessions, f.Drops = both.Sessions, both.Drops
	f.Sockets = append(f.Sockets, o.Sockets...)
	f.ToClients.Add(&o.ToClients)
	f.ToUpstreams.Add(&o.ToUpstreams)
	f.Turns.Add(&o.Turns)
	f.Longest = append(f.Longest, o.Longest...)
	f.Rules = addCounts(f.Rules, o.Rules)
	f.Draining = f.Draining || o.Draining
}

// Figures returns the totals of all loops. It waits for each loop's turn, as long as ctx allows. An error means that
// a loop has ended, or does not answer.
func (s *Server) Figures(ctx context.Context) (Figures, error) {
	all := Figures{Bans: s.options.Bans.Len()}
	for _, l := range s.loops {
		var one Figures
		err := l.consult(ctx, stats.WorkFigures, func(r *Relay, now time.Time) {
			one = r.Figures()
			one.Sockets = []netio.Stats{l.sockets()}
			one.Turns = l.turns.Histogram
			one.Longest = []stats.LongTurn{l.turns.Longest(now)}
		})
		if err != nil {
			return Figures{}, err
		}
		all.add(&one)
	}
	all.Kernel = stats.ReadKernel(s.options.Kernel.Shield, s.options.Kernel.Flows)
	all.Counters.AddForwarded(&all.Kernel)
	return all, nil
}

// addCounts joins the counts of Relays. They may have different rules for a moment.
func addCounts(all, more []RuleCount) []RuleCount {
next:
	for _, c := range more {
		for i := range all {
			if all[i].Kind == c.Kind && all[i].Name == c.Name {
				all[i].Matches += c.Matches
				continue next
			}
		}
		all = append(all, c)
	}
	return all
}
