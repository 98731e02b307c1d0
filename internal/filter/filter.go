// Package filter says who may come and what may pass: rules about the sources of newcomers (prefixes, countries,
// networks), and rules about messages. It knows no sockets and no sessions, and counts nothing: it answers.
//
// Start with Set, which is made once by New and never changes: whoever wants other rules makes another Set.
package filter

import (
	"fmt"
	"math/bits"
	"net/netip"

	"tidegate/ratelimit"
)

// MaxRules bounds the rules about sources, and those about messages: each is one bit of a Mask.
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

// below are the rules before index i.
func below(i int) Mask { return 1<<i - 1 }

// Match is what a Set's rules say: the first that matches and does more than observe decides.
type Match struct {
	Rule     int               // index of the rule that decides; -1 if none does
	Verdict  ratelimit.Verdict // its verdict; Pass if none decides
	Observed Mask              // rules that match, come before it, and only observe
}

// free is the Match of what no rule is about.
var free = Match{Rule: -1}

// decide picks the deciding rule of those that match.
func decide(matched, observing Mask, verdict func(int) ratelimit.Verdict) Match {
	deciding := matched &^ observing
	if deciding == 0 {
		return Match{Rule: -1, Observed: matched}
	}
	i := bits.TrailingZeros64(uint64(deciding))
	return Match{Rule: i, Verdict: verdict(i), Observed: matched & observing & below(i)}
}

// Rules are what a Set is made of. The order within each kind matters: the first that matches decides.
type Rules struct {
	Sources  []Source
	Messages []Message
	// Countries and Networks know where addresses are; nil where no rule asks for it.
	Countries, Networks *Database
}

// Set is a compiled set of rules. It is immutable and safe for concurrent use. A nil Set has no rules.
type Set struct {
	sources  sources
	messages messages
}

// New compiles rules. The error names the rule that cannot be.
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

// SourceNames are the names of the rules about sources, by index.
func (s *Set) SourceNames() []string {
	if s == nil {
		return nil
	}
	return s.sources.names
}

// MessageNames are the names of the rules about messages, by index.
func (s *Set) MessageNames() []string {
	if s == nil {
		return nil
	}
	return s.messages.names
}

// Source judges an address that comes to a listener. It does not allocate. Newcomers are judged once, and everybody
// once more when the Set is replaced: it is not for every datagram.
func (s *Set) Source(listener string, from netip.Addr) Match {
	if s == nil || len(s.sources.names) == 0 {
		return free
	}
	return s.sources.judge(listener, from)
}

// Place is where an address is, as far as the operator's databases know: an ISO 3166 code, and an autonomous system's
// number and holder. It is for people; Source does not need it.
func (s *Set) Place(addr netip.Addr) Place {
	if s == nil {
		return Place{}
	}
	return s.sources.place(addr)
}
