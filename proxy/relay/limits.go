package relay

import (
	"errors"
	"net/netip"

	"tidegate/ratelimit"
)

// limits are the limits of the settings, sorted by the place that applies them.
type limits struct {
	// datagrams apply before a session's codec sees a datagram. Their verdicts harm only the datagram. accepted apply
	// after the codec has accepted it. Their verdicts end the session, and a forged datagram must not do that. A forger
	// that knows all that the codec checks looks like the client.
	datagrams, accepted []*rule
	messages            []*rule // on reliable messages
	queues              []*rule // on bytes that wait
	strangers           []*rule // on datagrams from addresses without a session
	// handshakes apply to new clients: [0] to clients without proof of address, [1] to clients with proof. So clients
	// without proof cannot use up the places of the others.
	handshakes [2][]*rule
	calm       ratelimit.Rate   // rate of unproved new clients that need not ask twice; zero: half of half-open
	calmed     ratelimit.Bucket // state of calm
	shared     bool             // sessions of an address or network count together
}

// rule is a Limit with the Buckets of addresses without a session.
type rule struct {
	ratelimit.Limit
	why     error // text for the journal
	hashed  *ratelimit.HashedBuckets
	overall ratelimit.Bucket
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

func newRule(l ratelimit.Limit, seed func() uint64) *rule {
	r := &rule{Limit: l, why: errors.New(l.String())}
	if l.Per == ratelimit.PerAddress || l.Per == ratelimit.PerNetwork {
		r.hashed = ratelimit.NewHashedBuckets(seed())
	}
	return r
}

// bucket returns the bucket of an address without a session.
func (l *rule) bucket(from netip.Addr, networks ratelimit.Networks) *ratelimit.Bucket {
	switch l.Per {
	case ratelimit.PerAddress:
		return l.hashed.Of(netip.PrefixFrom(from, from.BitLen()))
	case ratelimit.PerNetwork:
		return l.hashed.Of(networks.Of(from))
	}
	return &l.overall
}

// weight returns the amount that a datagram takes from a bucket.
func (l *rule) weight(size int) int {
	if l.Of == ratelimit.Bytes {
		return size
	}
	return 1
}
