package proxy

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/ratelimit"
)

// limits are Settings.Limit, each where it is asked.
type limits struct {
	// datagrams are asked before a session's codec sees a datagram: those whose verdict hurts nobody but the datagram.
	// accepted are asked after it was accepted: those that end the session, which a forged datagram must not. A forger
	// who knows all that the codec checks is not told apart from the client.
	datagrams, accepted []*rule
	messages            []*rule // reliable ones
	queues              []*rule // bytes that wait
	strangers           []*rule // datagrams from addresses without a session
	// handshakes are asked for by newcomers who have not proved their address and by those who have: the first cannot
	// spend what is the others'.
	handshakes [2][]*rule
	calm       ratelimit.Rate   // of newcomers of unproved addresses that need not ask twice; zero: half of half-open
	calmed     ratelimit.Bucket // its state
	shared     bool             // sessions count together by address or network
}

// rule is a Limit with the Buckets of those who have no session.
type rule struct {
	ratelimit.Limit
	why     error // for the journal
	hashed  *ratelimit.HashedBuckets
	overall ratelimit.Bucket
}

// newLimits files the limits. The seed is of hashed buckets.
func newLimits(all []ratelimit.Limit, seed func() uint64) limits {
	var l limits
	for _, one := range all {
		hard := one.Verdict == ratelimit.Disconnect || one.Verdict == ratelimit.BanSource
		if one.Of != ratelimit.Handshakes && (one.Per == ratelimit.PerAddress || one.Per == ratelimit.PerNetwork) {
			l.shared = true
		}
		switch one.Of {
		case ratelimit.Handshakes:
			l.handshakes[0] = append(l.handshakes[0], newRule(one, seed))
			l.handshakes[1] = append(l.handshakes[1], newRule(one, seed))
			if one.Per == ratelimit.Overall {
				l.calm = ratelimit.Rate{PerSecond: max(1, one.Rate.PerSecond/2), Burst: max(1, one.Rate.Burst/2)}
			}
		case ratelimit.ReliableMessages:
			l.messages = append(l.messages, newRule(one, seed))
		case ratelimit.QueuedBytes:
			l.queues = append(l.queues, newRule(one, seed))
		default:
			if hard {
				l.accepted = append(l.accepted, newRule(one, seed))
			} else {
				l.datagrams = append(l.datagrams, newRule(one, seed))
			}
			if one.Per != ratelimit.PerSession {
				l.strangers = append(l.strangers, newRule(one, seed))
			}
		}
	}
	return l
}

func newRule(l ratelimit.Limit, seed func() uint64) *rule {
	r := &rule{Limit: l, why: errors.New(l.String())}
	if l.Per == ratelimit.PerAddress || l.Per == ratelimit.PerNetwork {
		r.hashed = ratelimit.NewHashedBuckets(seed())
	}
	return r
}

// bucket is that of an address without a session.
func (l *rule) bucket(from netip.Addr, networks ratelimit.Networks) *ratelimit.Bucket {
	switch l.Per {
	case ratelimit.PerAddress:
		return l.hashed.Of(netip.PrefixFrom(from, from.BitLen()))
	case ratelimit.PerNetwork:
		return l.hashed.Of(networks.Of(from))
	}
	return &l.overall
}

// strangerWithin asks rules about a datagram of n from an address without a session, for which every verdict beyond
// Observe is to drop it. Where one stops it, it returns that.
func (g *guard) strangerWithin(now time.Time, rules []*rule, from netip.AddrPort, size int) *rule {
	at, a := g.sinceStart(now), from.Addr().Unmap()
	for _, l := range rules {
		if !l.bucket(a, g.settings.Networks).Take(at, l.Rate, l.weight(size)) && g.breaks(l) {
			return l
		}
	}
	return nil
}

// weight is what a datagram counts.
func (l *rule) weight(size int) int {
	if l.Of == ratelimit.Bytes {
		return size
	}
	return 1
}

// breaks counts a breach of a limit, and reports whether it is to be punished.
func (g *guard) breaks(l *rule) bool {
	if l.Verdict <= ratelimit.Observe {
		g.drops.counters.Limits[l.Of][l.Per].Observed++
		return false
	}
	g.drops.counters.Limits[l.Of][l.Per].Enforced++
	return true
}

// sinceStart is the time of Buckets.
func (g *guard) sinceStart(now time.Time) time.Duration { return now.Sub(g.start) }
