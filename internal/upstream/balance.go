package upstream

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/policy"
)

// choose returns an open server for a client, none of the excluded ones. It returns nil if there is none.
func (p *Pool) choose(now time.Time, client netip.Addr, excluded []*Server) *Server {
	switch p.options.Balance {
	case policy.RoundRobin:
		return p.roundRobinNext(now, excluded)
	case policy.Weighted:
		return p.weightedNext(now, excluded)
	case policy.Hash:
		seed := hashOf(client)
		return p.best(now, excluded, func(s *Server) float64 { return s.affinity(seed) })
	}
	return p.best(now, excluded, func(s *Server) float64 { return -float64(s.sessions) / float64(s.weight) })
}

// firstRested returns the resting server whose rest ends first, or nil. A session that has tried one without success
// gets the next server in the list. So its attempts reach all servers.
func (p *Pool) firstRested(tried *Server) (best *Server) {
	first := slices.Index(p.servers, tried) + 1
	for i := range p.servers {
		s := p.servers[(first+i)%len(p.servers)]
		switch {
		case !s.usable():
		case tried != nil:
			return s
		case best == nil || s.restUntil.Before(best.restUntil):
			best = s
		}
	}
	return best
}

// best returns the open server with the highest score; among equals, the first listed.
func (p *Pool) best(now time.Time, excluded []*Server, score func(*Server) float64) (best *Server) {
	high := math.Inf(-1)
	for _, s := range p.servers {
		if !s.open(now) || slices.Contains(excluded, s) {
			continue
		}
		if x := score(s); best == nil || x > high {
			best, high = s, x
		}
	}
	return best
}

// roundRobinNext returns the open server after the last chosen one.
func (p *Pool) roundRobinNext(now time.Time, excluded []*Server) *Server {
	n := len(p.servers)
	for i := range n {
		if s := p.servers[(p.turn+i)%n]; s.open(now) && !slices.Contains(excluded, s) {
			p.turn = (p.turn + i + 1) % n
			return s
		}
	}
	return nil
}

// weightedNext implements nginx's smooth weighted round robin. Every server earns its weight as credit, the server
// with the most credit is chosen, and pays the sum of all weights.
func (p *Pool) weightedNext(now time.Time, excluded []*Server) (best *Server) {
	total := 0
	for _, s := range p.servers {
		if !s.open(now) || slices.Contains(excluded, s) {
			continue
		}
		total += s.weight
		if s.credit += s.weight; best == nil || s.credit > best.credit {
			best = s
		}
	}
	if best != nil {
		best.credit -= total
	}
	return best
}

// affinity returns a client's score of the server in weighted rendezvous hashing. When a server is added or removed,
// only the clients of that server move. All processes compute the same score.
func (s *Server) affinity(client uint64) float64 {
	addr := s.Addr.Addr().As16()
	h := mix(client ^ hash(addr[:]) ^ uint64(s.Addr.Port())<<48)
	u := (float64(h>>11) + 0.5) / (1 << 53) // in the open interval (0, 1)
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

// mix makes every bit depend on all others (the finalizer of SplitMix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
