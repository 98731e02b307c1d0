// Package filter decides which clients may connect and which messages may pass. It has rules about sources (prefixes,
// countries, autonomous systems) and rules about messages. It knows no sockets and no sessions, and counts nothing.
//
// Start with Set. New makes it, and it never changes: to change the rules, make another Set.
package filter

import (
	"fmt"
	"math/bits"
	"net/netip"

	"tidegate/ratelimit"
)

// MaxRules bounds the source rules, and the message rules: each is one bit of a Mask.
const MaxRules = 64

// Mask is a set of rules of one kind, by index.
type Mask uint64

// All yields the indices in the mask, lowest first.
func (m Mask) All(yield func(int) bool) {
	for ; m != 0; m &= m - 1 {
		if !yield(bits.TrailingZeros64(uint64(m))) {
			return
		}
	}
}

// below returns the rules before index i.
func below(i int) Mask { return 1<<i - 1 }

// Match is the result of a Set's rules. The first matching rule whose verdict is not Observe decides.
type Match struct {
	Rule     int               // index of the deciding rule; -1: none
	Verdict  ratelimit.Verdict // its verdict; Pass if no rule decides
	Observed Mask              // matching rules before it that only observe
}

// noMatch is the Match when no rule matches.
var noMatch = Match{Rule: -1}

// decide picks the deciding rule among the matching ones.
func decide(matched, observing Mask, verdict func(int) ratelimit.Verdict) Match {
	deciding := matched &^ observing
	if deciding == 0 {
		return Match{Rule: -1, Observed: matched}
	}
	i := bits.TrailingZeros64(uint64(deciding))
	return Match{Rule: i, Verdict: verdict(i), Observed: matched & observing & below(i)}
}

// Rules are the input of New. The order within each kind matters: the first match decides.
type Rules struct {
	Sources  []Source
	Messages []Message
	// Countries and Networks locate addresses. Each may be nil if no rule needs it.
	Countries, Networks *Database
}

// Set is a compiled set of rules. It is immutable and safe for concurrent use. A nil Set has no rules.
type Set struct {
	sources  sources
	messages messages
}

// New compiles rules. The error names the invalid rule.
func New(r Rules) (*Set, error) {
	if len(r.Sources) > MaxRules || len(r.Messages) > MaxRules {
		return nil, fmt.Errorf("at most %d rules of each kind", MaxRules)
	}
	s := new(Set)
	if err := s.sources.compile(&r); err != nil {
		return nil, err
	}
	s.messages.compile(r.Messages)
	return s, nil
}

// SourceNames returns the names of the source rules, by index.
func (s *Set) SourceNames() []string {
	if s == nil {
		return nil
	}
	return s.sources.names
}

// MessageNames returns the names of the message rules, by index.
func (s *Set) MessageNames() []string {
	if s == nil {
		return nil
	}
	return s.messages.names
}

// Source judges an address at a listener. It does not allocate. Call it once for each new client, and once for each
// client after the Set was replaced. It is too slow for every datagram.
func (s *Set) Source(listener string, from netip.Addr) Match {
	if s == nil || len(s.sources.names) == 0 {
		return noMatch
	}
	return s.sources.judge(listener, from)
}

// Place returns the location of an address from the operator's databases. It is for display; Source does not need it.
func (s *Set) Place(addr netip.Addr) Place {
	if s == nil {
		return Place{}
	}
	return s.sources.place(addr)
}
