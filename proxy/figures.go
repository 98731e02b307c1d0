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
	Servers     []*stats.ServerTally
	Sockets     []netio.Stats // by loop
	ToClients   stats.Samples
	ToUpstreams stats.Samples
	Rules       []RuleCount
	Held        HeldFigures
	Tables      stats.Tables
	Bans        int              // bans in force, and past bans that are still remembered
	Turns       stats.Histogram  // durations of loops' turns, one in 16 counted
	Longest     []stats.LongTurn // by loop, of the last minute or two
	Draining    bool
	Kernel      stats.KernelFigures
}

// Figures copies the Relay's totals.
func (r *Relay) Figures() Figures {
	copied := r.samples.tallies.Clone()
	return Figures{
		Counters: r.counters, Sessions: copied.Sessions, Drops: copied.Drops, Servers: copied.Servers,
		ToClients: r.samples.toClients, ToUpstreams: r.samples.toUpstreams,
		Draining: r.draining, Rules: r.guard.ruleCounts(), Held: r.held.figures(),
	}
}

// tables counts the entries of the Relay's own tables.
func (r *Relay) tables() (n stats.Tables) {
	n[stats.TableSessions], n[stats.TableTimers] = r.table.Len(), r.table.Timers()
	n[stats.TableClosing], n[stats.TableWaiting] = len(r.closing.list), r.waiting.len()
	n[stats.TableLimited] = len(r.guard.addresses) + len(r.guard.networks)
	n[stats.TableHolders], n[stats.TablePaths] = len(r.held.addresses), len(r.paths.byKey)
	n[stats.TableDebts] = r.guard.spending.debts.Len()
	for _, p := range r.paths.blocked {
		n[stats.TableParked] += p.parked.len()
	}
	return n
}

// add joins the totals of another Relay.
func (f *Figures) add(o *Figures) {
	f.Counters.Add(&o.Counters)
	both := stats.Tallies{Sessions: f.Sessions, Drops: f.Drops, Servers: f.Servers}
	both.Add(&stats.Tallies{Sessions: o.Sessions, Drops: o.Drops, Servers: o.Servers})
	f.Sessions, f.Drops, f.Servers = both.Sessions, both.Drops, both.Servers
	f.Sockets = append(f.Sockets, o.Sockets...)
	f.ToClients.Add(&o.ToClients)
	f.ToUpstreams.Add(&o.ToUpstreams)
	f.Turns.Add(&o.Turns)
	f.Longest = append(f.Longest, o.Longest...)
	f.Rules = addCounts(f.Rules, o.Rules)
	f.Held.add(o.Held)
	f.Tables.Add(&o.Tables)
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
			one.Tables = r.tables() // not in a Relay's own figures: a handover ends closing connections
			one.Sockets = []netio.Stats{l.sockets()}
			one.Turns = l.turns.Histogram
			one.Longest = []stats.LongTurn{l.turns.Longest(now)}
		})
		if err != nil {
			return Figures{}, err
		}
		all.add(&one)
	}
	all.Tables[stats.TablePresence], all.Tables[stats.TablePlaces] = s.presence.len(), s.places.Len()
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
