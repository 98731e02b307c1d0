package stats

import (
	"net/netip"
	"strconv"
	"time"

	"tidegate/codec"
	"tidegate/ratelimit"
)

// Counts are counters by their names, for a record. A counter of zero has no entry. Names are never used again for
// another counter.
type Counts map[string]uint64

// SavedTally is a Tally, a DropTally or a ServerTally as plain data.
type SavedTally struct {
	Listener string `cbor:"1,keyasint,omitempty"`
	Protocol string `cbor:"2,keyasint,omitempty"` // of a Tally
	Counts   Counts `cbor:"3,keyasint,omitempty"`
	Upstream string `cbor:"4,keyasint,omitempty"` // of a ServerTally
	Server   string `cbor:"5,keyasint,omitempty"`
}

// counterOf calls visit with each counter of a set, and its name.
type counterOf func(visit func(name string, n *uint64))

// save returns the counters.
func (each counterOf) save() Counts {
	all := make(Counts)
	each(func(name string, n *uint64) {
		if *n > 0 {
			all[name] = *n
		}
	})
	return all
}

// add adds saved counters. It ignores names that are not known.
func (each counterOf) add(c Counts) {
	each(func(name string, n *uint64) { *n += c[name] })
}

func (t *Traffic) counters(name string, visit func(string, *uint64)) {
	visit(name+".messages", &t.Messages)
	visit(name+".bytes", &t.Bytes)
}

func (c *Counters) each(visit func(string, *uint64)) {
	for name, n := range map[string]*uint64{
		"opened": &c.Opened, "established": &c.Established, "closed": &c.Closed, "evicted": &c.Evicted, "held": &c.Held,
		"moved": &c.Moved, "regained": &c.Regained, "redialed": &c.Redialed, "paced": &c.Paced,
		"overtaken": &c.Overtaken, "resent": &c.Resent, "passed": &c.Passed, "lost": &c.Lost,
		"module-failures": &c.ModuleFailures,
	} {
		visit(name, n)
	}
	for name, t := range map[string]*Traffic{
		"clients.in": &c.Clients.In, "clients.out": &c.Clients.Out, "upstreams.in": &c.Upstreams.In,
		"upstreams.out": &c.Upstreams.Out, "from-clients": &c.FromClients, "from-upstreams": &c.FromUpstreams,
		"relayed-up": &c.RelayedUp, "relayed-down": &c.RelayedDown,
	} {
		t.counters(name, visit)
	}
	for name, w := range map[string]*Wire{"clients": &c.Clients, "upstreams": &c.Upstreams} {
		for f := range w.Fates {
			visit(name+"."+Fate(f).String(), &w.Fates[f])
		}
	}
	for why := range c.Drops {
		visit("drop."+Drop(why).String(), &c.Drops[why])
	}
	for q := range c.Limits {
		for s := range c.Limits[q] {
			name := "limit." + ratelimit.Quantity(q).String() + "." + ratelimit.Scope(s).String()
			visit(name+".observed", &c.Limits[q][s].Observed)
			visit(name+".enforced", &c.Limits[q][s].Enforced)
		}
	}
}

// Save returns the counters by name.
func (c *Counters) Save() Counts { return counterOf(c.each).save() }

// Restore adds saved counters.
func (c *Counters) Restore(saved Counts) { counterOf(c.each).add(saved) }

func (t *Tally) each(visit func(string, *uint64)) {
	visit("opened", &t.Opened)
	visit("established", &t.Established)
	visit("unestablished", &t.Unestablished)
	t.Handshakes.each("handshakes", visit)
	for by := range t.Ended {
		for why := range t.Ended[by] {
			visit("ended."+Party(by).String()+"."+codec.Reason(why).String(), &t.Ended[by][why])
		}
	}
	for mode := range t.FromClients {
		t.FromClients[mode].counters("from-clients."+codec.Mode(mode).String(), visit)
		t.FromUpstreams[mode].counters("from-upstreams."+codec.Mode(mode).String(), visit)
	}
}

func (t *DropTally) each(visit func(string, *uint64)) {
	for why := range t.Drops {
		visit("drop."+Drop(why).String(), &t.Drops[why])
	}
}

// Save returns the tallies as plain data. Those of unused listeners have no entry: there may be thousands, and players
// wait.
func (t *Tallies) Save() (all []SavedTally) {
	for _, one := range t.Sessions {
		if *one == (Tally{Listener: one.Listener, Protocol: one.Protocol}) {
			continue
		}
		all = append(all, SavedTally{Listener: one.Listener, Protocol: one.Protocol, Counts: counterOf(one.each).save()})
	}
	for _, one := range t.Drops {
		if *one == (DropTally{Listener: one.Listener}) {
			continue
		}
		all = append(all, SavedTally{Listener: one.Listener, Counts: counterOf(one.each).save()})
	}
	for _, one := range t.Servers {
		all = append(all, SavedTally{Upstream: one.Upstream, Server: one.Server, Counts: counterOf(one.each).save()})
	}
	return all
}

// Restore adds saved tallies.
func (t *Tallies) Restore(saved []SavedTally) {
	for i := range saved {
		one := &saved[i]
		switch {
		case one.Upstream != "":
			server, _ := netip.ParseAddrPort(one.Server) // OtherServers is none
			counterOf(t.ServerOf(one.Upstream, server).each).add(one.Counts)
		case one.Protocol == "":
			counterOf(t.DropsOf(one.Listener).each).add(one.Counts)
		default:
			counterOf(t.Of(one.Listener, one.Protocol).each).add(one.Counts)
		}
	}
}

// each visits the samples without Queued: each session adds its own share again.
func (s *Samples) each(visit func(string, *uint64)) {
	s.Leg.each("", visit)
	s.Queues.each("queues", visit)
}

// Save returns the samples as plain data.
func (s *Samples) Save() Counts { return counterOf(s.each).save() }

// Restore adds saved samples.
func (s *Samples) Restore(saved Counts) { counterOf(s.each).add(saved) }

func (l *Leg) each(name string, visit func(string, *uint64)) {
	l.RTT.each(name+"rtt", visit)
	visit(name+"resent", &l.Resent)
	visit(name+"lost", &l.Lost)
}

// each visits a histogram's counts by the ends of its buckets, and its sum in nanoseconds.
func (h *Histogram) each(name string, visit func(string, *uint64)) {
	for i := range h.counts {
		end := "more"
		if i < len(histogramBounds) {
			end = histogramBounds[i].String()
		}
		visit(name+"."+end, &h.counts[i])
	}
	sum := uint64(h.sum)
	visit(name+".sum", &sum)
	h.sum = time.Duration(sum)
}

func (h *Sizes) each(name string, visit func(string, *uint64)) {
	for i := range h.counts {
		end := "more"
		if i < len(sizeBounds) {
			end = strconv.Itoa(sizeBounds[i])
		}
		visit(name+"."+end, &h.counts[i])
	}
	visit(name+".sum", &h.Sum)
}

func (t *ServerTally) each(visit func(string, *uint64)) {
	visit("joined", &t.Joined)
	visit("failed-checks", &t.FailedChecks)
	for why := range t.Refused {
		visit("refused."+codec.Reason(why).String(), &t.Refused[why])
	}
	t.Checks.each("checks", visit)
	t.ToClients.each("to-clients.", visit)
	t.ToServer.each("to-server.", visit)
}
