package relay

import (
	"tidegate/internal/netio"
	"tidegate/proxy/relay/admission"
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
	Rules       []admission.RuleCount
	Held        admission.HeldFigures
	Tables      stats.Tables
	Bans        int              // bans in force, and past bans that are still remembered
	Turns       stats.Histogram  // durations of loops' turns, one in 16 counted
	Longest     []stats.LongTurn // by loop, of the last minute or two
	Draining    bool
	Kernel      stats.KernelFigures
}

// Figures copies the Relay's totals. The first of siblings adds the tables that all share.
func (r *Relay) Figures() Figures {
	copied := r.samples.tallies.Clone()
	return Figures{
		Counters: r.counters, Sessions: copied.Sessions, Drops: copied.Drops, Servers: copied.Servers,
		ToClients: r.samples.toClients, ToUpstreams: r.samples.toUpstreams,
		Draining: r.draining, Rules: r.guard.RuleCounts(), Held: r.held.Figures(), Tables: r.tables(),
	}
}

// tables counts the entries of the Relay's tables.
func (r *Relay) tables() (n stats.Tables) {
	if r.shard.index == 0 {
		n[stats.TablePresence], n[stats.TablePlaces] = r.presence.len(), r.places.Len()
	}
	n[stats.TableSessions], n[stats.TableTimers] = r.table.Len(), r.table.Timers()
	n[stats.TableClosing], n[stats.TableWaiting] = len(r.closing.list), r.waiting.len()
	counts := r.guard.Counts()
	n[stats.TableLimited], n[stats.TableDebts] = counts.Addresses+counts.Networks, counts.Debts
	n[stats.TableHolders], n[stats.TablePaths] = r.held.Addresses(), len(r.paths.byKey)
	for _, p := range r.paths.blocked {
		n[stats.TableParked] += p.parked.len()
	}
	return n
}

// Add joins the totals of another Relay.
func (f *Figures) Add(o *Figures) {
	stats.Add(&f.Counters, &o.Counters)
	both := stats.Tallies{Sessions: f.Sessions, Drops: f.Drops, Servers: f.Servers}
	both.Add(&stats.Tallies{Sessions: o.Sessions, Drops: o.Drops, Servers: o.Servers})
	f.Sessions, f.Drops, f.Servers = both.Sessions, both.Drops, both.Servers
	f.Sockets = append(f.Sockets, o.Sockets...)
	stats.Add(&f.ToClients, &o.ToClients)
	stats.Add(&f.ToUpstreams, &o.ToUpstreams)
	stats.Add(&f.Turns, &o.Turns)
	f.Longest = append(f.Longest, o.Longest...)
	f.Rules = addCounts(f.Rules, o.Rules)
	f.Held.Add(o.Held)
	stats.Add(&f.Tables, &o.Tables)
	f.Draining = f.Draining || o.Draining
}

// addCounts joins the counts of Relays. They may have different rules for a moment.
func addCounts(all, more []admission.RuleCount) []admission.RuleCount {
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

// Len returns the number of sessions.
func (r *Relay) Len() int { return r.table.Len() }

// Visited returns how often the Relay has visited a session so far. Tests bound a turn's work by it.
func (r *Relay) Visited() uint64 { return r.table.Visited() }
