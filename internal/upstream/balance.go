package upstream

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/enum"
)

// Balance is how a Pool spreads sessions over its servers.
type Balance uint8

// Ways to spread sessions.
const (
	LeastSessions Balance = iota // the server with the fewest for its weight, the first listed among equals
	RoundRobin                   // one after the other
	Weighted                     // in turn, each as often as its weight says, evenly spread
	Hash                         // by the client's address: the same server for as long as it can be had
)

var balanceNames = []string{"least_sessions", "round_robin", "weighted", "hash"}

// UnmarshalText reads the name of a way to spread sessions.
func (b *Balance) UnmarshalText(text []byte) error { return enum.Parse(balanceNames, text, b) }

// choose returns the server for a client, among the open ones without the given ones. It returns nil if there is none.
func (p *Pool) choose(now time.Time, client netip.Addr, not []*Server) *Server {
	switch p.options.Balance {
	case RoundRobin:
		return p.next(now, not)
	case Weighted:
		return p.owed(now, not)
	case Hash:
		seed := hashOf(client)
		return p.best(now, not, func(s *Server) float64 { return s.affinity(seed) })
	}
	return p.best(now, not, func(s *Server) float64 { return -float64(s.sessions) / float64(s.weight) })
}

// leastRest returns the resting server whose rest ends first, or nil. A session that has tried one in vain gets the next
// one in the list, so that its tries reach as many servers as there are.
func (p *Pool) leastRest(tried *Server) (best *Server) {
	first := slices.Index(p.servers, tried) + 1
	for i := range p.servers {
		s := p.servers[(first+i)%len(p.servers)]
		switch {
		case !s.usable():
		case tried != nil:
			return s
		case best == nil || s.restsTil.Before(best.restsTil):
			best = s
		}
	}
	return best
}

// best is the open server with the highest score, the first listed among equals.
func (p *Pool) best(now time.Time, not []*Server, score func(*Server) float64) (best *Server) {
	high := math.Inf(-1)
	for _, s := range p.servers {
		if !s.open(now) || slices.Contains(not, s) {
			continue
		}
		if x := score(s); best == nil || x > high {
			best, high = s, x
		}
	}
	return best
}

// next is the open server after the last one that was chosen.
func (p *Pool) next(now time.Time, not []*Server) *Server {
	n := len(p.servers)
	for i := range n {
		if s := p.servers[(p.turn+i)%n]; s.open(now) && !slices.Contains(not, s) {
			p.turn = (p.turn + i + 1) % n
			return s
		}
	}
	return nil
}

// owed is the open server that is owed most, every one having earned its weight (nginx's smooth weighted round robin).
func (p *Pool) owed(now time.Time, not []*Server) (best *Server) {
	total := 0
	for _, s := range p.servers {
		if !s.open(now) || slices.Contains(not, s) {
			continue
		}
		total += s.weight
		if s.turn += s.weight; best == nil || s.turn > best.turn {
			best = s
		}
	}
	if best != nil {
		best.turn -= total
	}
	return best
}

// affinity is a client's score of the server in weighted rendezvous hashing: when a server comes or goes, only the
// clients that are its own move. It is the same in every process.
func (s *Server) affinity(client uint64) float64 {
	addr := s.Addr.Addr().As16()
	h := mix(client ^ hash(addr[:]) ^ uint64(s.Addr.Port())<<48)
	u := (float64(h>>11) + 0.5) / (1 << 53) // in (0, 1), never either
	return -float64(s.weight) / math.Log(u)
}

func hashOf(a netip.Addr) uint64 {
	b := a.As16()
	return mix(hash(b[:]))
}

// hash is FNV-1a.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// mix spreads every bit over all others (the finalizer of SplitMix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
