package relay

import (
	"errors"
	"slices"

	"tidegate/internal/filter"
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

// recall adds the matches of a rule in another Relay, if there is such a rule.
func (f *filters) recall(c RuleCount) {
	hits := &f.messages
	if c.Kind == "source" {
		hits = &f.sources
	}
	if i := slices.Index(hits.names, c.Name); i >= 0 {
		hits.counts[i] += c.Matches
	}
}

func (h *ruleHits) list(to []RuleCount, kind string) []RuleCount {
	for i, name := range h.names {
		to = append(to, RuleCount{kind, name, h.counts[i]})
	}
	return to
}
