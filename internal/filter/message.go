package filter

import (
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
)

// Range is the numbers from Low to High, both included.
type Range struct{ Low, High uint16 }

// Said is a message of a session, as a Set judges it.
type Said struct {
	From               policy.Direction // FromClient or FromUpstream
	Listener, Protocol string           // names of the session's listener, and of the sender's protocol
	Message            *codec.Message
	Head               []byte // begins the message on the wire: its payload, or the packet byte of its envelope
}

// Message is a rule about messages, as they were received. A message matches if it meets all conditions. A message of
// an envelope is judged by its own ID and payload.
type Message struct {
	Name      string
	Direction policy.Direction
	Listeners []string    // listener names; empty: all
	Protocols []string    // protocol names of the sender; empty: all
	IDs       []Range     // of messages with an ID; empty: any message
	Packets   []Range     // first bytes on the wire; empty: any
	MinSize   int         // payload size in bytes
	MaxSize   int         // 0: unbounded
	Modes     codec.Modes // 0: all
	// Every and Burst set the rate of matching messages that pass in each session, if Every is not 0. The verdict then
	// applies only beyond this rate.
	Every   time.Duration
	Burst   int
	Verdict ratelimit.Verdict
}

// Memory is one session's state of the rules with a rate. The zero value is a new session. It allocates only when such
// a rule matches. It is not safe for concurrent use.
type Memory struct{ *memory }

type memory struct {
	of       *Set
	limiters []ratelimit.Limiter // by rank
}

// messages are the compiled message rules.
type messages struct {
	names     []string
	verdicts  []ratelimit.Verdict
	observing Mask
	rules     [3][]messageRule // by direction; empty for Both
	rated     []ratelimit.Limiter
}

// messageRule is one rule, with the fields that are checked first kept flat.
type messageRule struct {
	*Message
	index   int
	packets [4]uint64 // bitmap of first bytes
	rank    int       // index among the rules with a rate; -1: no rate
}

func (s *messages) compile(rules []Message) {
	for i := range rules {
		m := rules[i]
		rule := messageRule{Message: &m, index: i, rank: -1}
		for _, r := range m.Packets {
			for b := int(r.Low); b <= int(min(r.High, 255)); b++ {
				rule.packets[b/64] |= 1 << (b % 64)
			}
		}
		if m.Every > 0 {
			rule.rank = len(s.rated)
			s.rated = append(s.rated, ratelimit.Limiter{Every: m.Every, Burst: m.Burst})
		}
		if m.Verdict == ratelimit.Observe {
			s.observing |= 1 << i
		}
		s.names = append(s.names, m.Name)
		s.verdicts = append(s.verdicts, m.Verdict)
		for _, d := range []policy.Direction{policy.FromClient, policy.FromUpstream} {
			if m.Direction == policy.Both || m.Direction == d {
				s.rules[d] = append(s.rules[d], rule)
			}
		}
	}
}

// Judges reports whether any rule applies to messages of a direction.
func (s *Set) Judges(d policy.Direction) bool { return s != nil && len(s.messages.rules[d]) > 0 }

// Message judges a message of a session. It allocates only when a rule with a rate matches for the first time in the
// session.
func (s *Set) Message(now time.Time, said *Said, memory *Memory) Match {
	if !s.Judges(said.From) {
		return noMatch
	}
	match := noMatch
	for i := range s.messages.rules[said.From] {
		r := &s.messages.rules[said.From][i]
		switch {
		case !r.matches(said), r.rank >= 0 && memory.limiter(s, r.rank).Allow(now):
		case r.Verdict == ratelimit.Observe:
			match.Observed |= 1 << r.index
		default:
			match.Rule, match.Verdict = r.index, r.Verdict
			return match
		}
	}
	return match
}

func (r *messageRule) matches(said *Said) bool {
	m, head := said.Message, said.Head
	size := len(m.Payload)
	switch {
	case size < r.MinSize, r.MaxSize > 0 && size > r.MaxSize:
		return false
	case r.Modes != 0 && !r.Modes.Has(m.Mode):
		return false
	case len(r.IDs) > 0 && (!m.HasID || !within(r.IDs, m.ID)):
		return false
	case len(r.Packets) > 0 && (len(head) == 0 || r.packets[head[0]/64]>>(head[0]%64)&1 == 0):
		return false
	case len(r.Protocols) > 0 && !slices.Contains(r.Protocols, said.Protocol):
		return false
	}
	return len(r.Listeners) == 0 || slices.Contains(r.Listeners, said.Listener)
}

func within(ranges []Range, n uint16) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.Low <= n && n <= r.High })
}

// UsedUp returns the times until which the limiters of the Set's rules with a rate are used up, by rank. It returns nil
// if no such rule has matched since the Set is in force.
func (m *Memory) UsedUp(s *Set) (times []time.Time) {
	if m.memory == nil || m.of != s {
		return nil
	}
	for i := range m.limiters {
		times = append(times, m.limiters[i].UsedUp())
	}
	return times
}

// Remember returns a Memory in which the limiters of the Set's rules are used up until the given times. It returns an
// empty Memory if the Set has another number of rules with a rate.
func (s *Set) Remember(now time.Time, times []time.Time) (m Memory) {
	if s == nil || len(times) == 0 || len(times) != len(s.messages.rated) {
		return m
	}
	for i, at := range times {
		m.limiter(s, i).UseUp(now, at)
	}
	return m
}

func (m *Memory) limiter(s *Set, rank int) *ratelimit.Limiter {
	if m.memory == nil || m.of != s {
		m.memory = &memory{s, slices.Clone(s.messages.rated)}
	}
	return &m.limiters[rank]
}
