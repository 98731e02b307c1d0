package admission

import (
	"errors"
	"slices"

	"tidegate/internal/filter"
)

// filters are the rules about sources and messages, with the counts of their matches.
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
		if old := slices.Index(h.names, name); old >= 0 {
			fresh.counts[i] = h.counts[old]
		}
	}
	return fresh
}

// RecallCount adds the matches of a rule in another Guard, if there is such a rule.
func (g *Guard) RecallCount(c RuleCount) {
	hits := &g.filters.messages
	if c.Kind == "source" {
		hits = &g.filters.sources
	}
	if i := slices.Index(hits.names, c.Name); i >= 0 {
		hits.counts[i] += c.Matches
	}
}

// SetRules replaces the rules about sources and messages; nil means none. It reports whether there are rules about
// sources, so that the addresses of sessions must be judged again. Rules with the same name keep their counts.
func (g *Guard) SetRules(set *filter.Set) bool {
	f := &g.filters
	f.set = set
	f.sources = f.sources.renamed(set.SourceNames())
	f.messages = f.messages.renamed(set.MessageNames())
	return len(f.sources.names) > 0
}

// Rules returns the rules in force, or nil.
func (g *Guard) Rules() *filter.Set { return g.filters.set }

// RuleCounts returns the counts of all rules, with rules about sources first.
func (g *Guard) RuleCounts() []RuleCount {
	f := &g.filters
	counts := make([]RuleCount, 0, len(f.sources.names)+len(f.messages.names))
	counts = f.sources.list(counts, "source")
	return f.messages.list(counts, "message")
}

func (h *ruleHits) list(to []RuleCount, kind string) []RuleCount {
	for i, name := range h.names {
		to = append(to, RuleCount{kind, name, h.counts[i]})
	}
	return to
}
