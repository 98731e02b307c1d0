package proxy

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// filters are a Relay's rules about sources and messages, with the counts of their matches.
type filters struct {
	set      *filter.Set
	sources  ruleHits
	messages ruleHits
}

// ruleHits counts the matches of rules of one kind, by index.
type ruleHits struct {
	names  []string
	counts []uint64
	faults []error // log texts for a rule's drops; made once
}

// RuleCount is how often a rule has matched. Rules that only observe are included.
type RuleCount struct {
	Kind    string // "source" or "message"
	Name    string
	Matches uint64
}

// Filter replaces the rules. It ends sessions of clients that the new rules drop, over some turns.
func (r *Relay) Filter(now time.Time, set *filter.Set) {
	f := &r.guard.filters
	f.set = set
	f.sources = f.sources.renamed(set.SourceNames())
	f.messages = f.messages.renamed(set.MessageNames())
	if len(f.sources.names) > 0 {
		r.rulesEnforced.begin(r, now, (*Relay).enforceRules)
	}
}

func (r *Relay) enforceRules(now time.Time, e *entry) int {
	if e.Value.isEnding() || r.guard.mayStay(e.Value.listener, e.Key.Client.Addr()) {
		return looked
	}
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Banned})
	return acted
}

// ruleCounts returns the counts of all rules, with rules about sources first.
func (g *guard) ruleCounts() []RuleCount {
	f := &g.filters
	counts := make([]RuleCount, 0, len(f.sources.names)+len(f.messages.names))
	counts = f.sources.list(counts, "source")
	return f.messages.list(counts, "message")
}

// mayCome applies the rules about sources to an address without a session.
func (g *guard) mayCome(now time.Time, d *listener, from netip.AddrPort, size int) bool {
	f := &g.filters
	if f.set == nil {
		return true
	}
	match := f.set.Source(d.name, from.Addr())
	fault := f.sources.note(match)
	if match.Verdict < ratelimit.Drop {
		return true
	}
	g.drops.add(now, dropped{stats.DropSourceRule, d, from, size, fault})
	return false
}

// mayStay applies the rules about sources to the address of a session.
func (g *guard) mayStay(d *listener, client netip.Addr) bool {
	return g.filters.set.Source(d.name, client).Verdict < ratelimit.Drop
}

// maySay applies the rules about messages to a message. It carries out the verdict on the session.
func (r *Relay) maySay(now time.Time, e *entry, from filter.Direction, m *codec.Message, head []byte) bool {
	f := &r.guard.filters
	if !f.set.Judges(from) {
		return true
	}
	p := &e.Value
	speaks := p.protocol
	if from == filter.FromUpstream {
		speaks = p.route.Upstream.Protocol
	}
	said := filter.Said{From: from, Listener: p.listener.name, Protocol: speaks.Spec().Name, Message: m, Head: head}
	match := f.set.Message(now, &said, &p.rates)
	fault := f.messages.note(match)
	if match.Verdict < ratelimit.Drop {
		return true
	}
	r.drops.add(now, dropped{stats.DropMessageRule, p.listener, e.Key.Client, len(m.Payload), fault})
	return r.applyVerdict(now, e, match.Verdict, fault.Error())
}

// note counts a match, and returns its log text.
func (h *ruleHits) note(m filter.Match) error {
	for i := range m.Observed.All {
		h.counts[i]++
	}
	if m.Rule < 0 {
		return nil
	}
	h.counts[m.Rule]++
	return h.faults[m.Rule]
}

// renamed returns hits for new rules. Rules with the same name keep their counts.
func (h *ruleHits) renamed(names []string) ruleHits {
	fresh := ruleHits{names: names, counts: make([]uint64, len(names)), faults: make([]error, len(names))}
	for i, name := range names {
		fresh.faults[i] = errors.New("rule " + name)
		for j, old := range h.names {
			if old == name {
				fresh.counts[i] = h.counts[j]
			}
		}
	}
	return fresh
}

func (h *ruleHits) list(to []RuleCount, kind string) []RuleCount {
	for i, name := range h.names {
		to = append(to, RuleCount{kind, name, h.counts[i]})
	}
	return to
}

// Filter replaces the rules in every loop. When it returns, they are in force. It is safe for concurrent use.
func (s *Server) Filter(set *filter.Set) {
	for _, l := range s.loops {
		l.ask(stats.WorkRules, func(r *Relay, now time.Time) { r.Filter(now, set) })
	}
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
