package admission

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/internal/source"
	"tidegate/ratelimit"
)

// limits are the limits of the settings, sorted by the place that applies them.
type limits struct {
	// datagrams apply before a session's codec sees a datagram. Their verdicts harm only the datagram. accepted apply
	// after the codec has accepted it. Their verdicts end the session, and a forged datagram must not do that. A forger
	// that knows all that the codec checks looks like the client.
	datagrams, accepted []*Rule
	messages            []*Rule // on reliable messages
	queues              []*Rule // on bytes that wait
	strangers           []*Rule // on datagrams from addresses without a session
	// handshakes apply to new clients: [0] to clients without proof of address, [1] to clients with proof. So clients
	// without proof cannot use up the places of the others.
	handshakes [2][]*Rule
	calm       ratelimit.Rate   // rate of unproved new clients that need not ask twice; zero: half of half-open
	calmed     ratelimit.Bucket // state of calm
	shared     bool             // sessions of an address or network count together
}

// Rule is a Limit with the Buckets of addresses without a session.
type Rule struct {
	ratelimit.Limit
	Why     error // text for logs
	hashed  *ratelimit.HashedBuckets
	overall ratelimit.Bucket
}

// SetLimits replaces the limits. seed makes the seeds of hashed buckets. Each session must be enrolled again.
func (g *Guard) SetLimits(all []ratelimit.Limit, seed func() uint64) {
	g.limits = newLimits(all, seed)
	g.begin()
}

// newLimits sorts the limits. seed makes the seeds of hashed buckets.
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

func newRule(l ratelimit.Limit, seed func() uint64) *Rule {
	r := &Rule{Limit: l, Why: errors.New(l.String())}
	if l.Per == ratelimit.PerAddress || l.Per == ratelimit.PerNetwork {
		r.hashed = ratelimit.NewHashedBuckets(seed())
	}
	return r
}

// bucket returns the bucket of an address without a session.
func (l *Rule) bucket(from netip.Addr) *ratelimit.Bucket {
	switch l.Per {
	case ratelimit.PerAddress:
		return l.hashed.Of(source.Of(from).Address())
	case ratelimit.PerNetwork:
		return l.hashed.Of(source.Of(from).Network())
	}
	return &l.overall
}

// weight returns the amount that a datagram takes from a bucket.
func (l *Rule) weight(size int) int {
	if l.Of == ratelimit.Bytes {
		return size
	}
	return 1
}

// UsedUp returns the limits that the next datagram of an address without a session would break. It changes nothing.
func (g *Guard) UsedUp(now time.Time, a netip.Addr) (all []ratelimit.Limit) {
	for _, rules := range [][]*Rule{g.limits.strangers, g.limits.handshakes[0], g.limits.handshakes[1]} {
		for _, l := range rules {
			if l.isUsedUp(g.sinceStart(now), *l.bucket(a)) {
				all = append(all, l.Limit)
			}
		}
	}
	return all
}

// UsedUpBy returns the limits that a session has used up. It changes nothing.
func (g *Guard) UsedUpBy(now time.Time, m *Meter) (all []ratelimit.Limit) {
	for _, rules := range [][]*Rule{g.limits.datagrams, g.limits.accepted, g.limits.messages} {
		for _, l := range rules {
			if l.isUsedUp(g.sinceStart(now), g.at(m, l.Per).buckets[l.Of]) {
				all = append(all, l.Limit)
			}
		}
	}
	for _, l := range g.limits.queues {
		if g.at(m, l.Per).queued >= l.Rate.PerSecond {
			all = append(all, l.Limit)
		}
	}
	return all
}

// isUsedUp reports whether a bucket would not let one more pass. b is a copy of the bucket.
func (l *Rule) isUsedUp(now time.Duration, b ratelimit.Bucket) bool { return !b.Take(now, l.Rate, 1) }
