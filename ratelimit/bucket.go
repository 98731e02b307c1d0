// Package ratelimit bounds rates, budgets and bans. Time is an argument and memory is bounded.
package ratelimit

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"

	"tidegate/internal/enum"
	"tidegate/internal/source"
)

// Rate is an amount per second, and the burst that may pass at once after a rest. Both are at least 1. An amount larger
// than Burst never passes.
type Rate struct {
	PerSecond, Burst int
}

// price is the time in which the rate pays for n, rounded up so that the rate is never exceeded.
func (r Rate) price(n int) time.Duration {
	return time.Duration((uint64(n)*uint64(time.Second) + uint64(r.PerSecond) - 1) / uint64(r.PerSecond))
}

// Bucket is the state of one Rate, by the generic cell rate algorithm (GCRA). The state is the time at which everything
// that passed is paid for, measured from any fixed moment. The zero Bucket is full.
type Bucket time.Duration

// Take reports whether an amount of n may pass at now, and counts it if so.
func (b *Bucket) Take(now time.Duration, r Rate, n int) bool {
	return b.take(now, r.price(n), r.price(r.Burst))
}

// take is Take for an event that costs price, where depth is the price of a whole burst.
func (b *Bucket) take(now, price, depth time.Duration) bool {
	if b.lacks(now, price, depth) {
		return false
	}
	*b = Bucket(max(time.Duration(*b), now) + price)
	return true
}

// lacks reports whether take would refuse.
func (b *Bucket) lacks(now, price, depth time.Duration) bool {
	return max(time.Duration(*b), now)+price-now > depth
}

// Limiter passes one event per Every, and Burst events at once after a rest. Burst 0 counts as 1. Unlike a Rate, it
// can be slower than one event per second. It is not safe for concurrent use.
type Limiter struct {
	Every time.Duration
	Burst int

	start  time.Time // of the bucket's time: the first call of Allow
	bucket Bucket
}

// Allow reports whether an event may pass now, and counts it if so.
func (l *Limiter) Allow(now time.Time) bool {
	if l.start.IsZero() {
		l.start = now
	}
	return l.bucket.take(now.Sub(l.start), l.Every, l.depth())
}

// Spent reports whether Allow would refuse an event now.
func (l *Limiter) Spent(now time.Time) bool {
	return !l.start.IsZero() && l.bucket.lacks(now.Sub(l.start), l.Every, l.depth())
}

// UsedUp returns the time until which past events are paid for.
func (l *Limiter) UsedUp() time.Time { return l.start.Add(time.Duration(l.bucket)) }

// UseUp makes a new Limiter that has passed events until now, which are paid for at the given time. A time beyond the
// burst counts as the whole burst.
func (l *Limiter) UseUp(now, paid time.Time) {
	l.start, l.bucket = now, Bucket(min(max(paid.Sub(now), 0), l.depth()))
}

func (l *Limiter) depth() time.Duration { return l.Every * time.Duration(max(l.Burst, 1)) }

// hashedBuckets is the number of Buckets in a HashedBuckets: 64 KiB.
const hashedBuckets = 8192

// HashedBuckets gives each network a Bucket, in memory that does not grow. Networks with the same hash share a Bucket,
// and no network can evict another. So a flood from forged sources makes the limit stricter, never laxer.
type HashedBuckets struct {
	seed    uint64
	buckets [hashedBuckets]Bucket
}

// NewHashedBuckets returns full Buckets. The seed decides which networks share one; strangers should not know it.
func NewHashedBuckets(seed uint64) *HashedBuckets { return &HashedBuckets{seed: seed} }

// Of returns the Bucket of a network.
func (h *HashedBuckets) Of(p netip.Prefix) *Bucket {
	return &h.buckets[Hash(p.Addr(), 0, h.seed)%hashedBuckets]
}

// OfKind returns the Bucket of a network for one of several kinds of events.
func (h *HashedBuckets) OfKind(p netip.Prefix, kind uint8) *Bucket {
	return &h.buckets[Hash(p.Addr(), 1+uint16(kind), h.seed)%hashedBuckets]
}

// Hash returns a seeded hash of an address and a port. Sources that do not know the seed cannot choose their hash.
func Hash(a netip.Addr, port uint16, seed uint64) uint64 {
	ip := a.As16()
	h := fold(binary.BigEndian.Uint64(ip[:8])^seed, 0x9e3779b97f4a7c15)
	return fold(h^binary.BigEndian.Uint64(ip[8:]), 0xbf58476d1ce4e5b9^uint64(port)<<1^seed)
}

// fold multiplies to 128 bits and combines both halves.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b|1)
	return high ^ low
}

// Quantity is the thing that a Limit counts.
type Quantity uint8

// Quantities. All but QueuedBytes are rates.
const (
	Packets          Quantity = iota // datagrams from clients
	Bytes                            // their payloads
	Handshakes                       // datagrams that ask for a session
	ReliableMessages                 // messages from clients
	QueuedBytes                      // bytes of messages that wait to be sent or acknowledged, in either direction
	Quantities
)

var quantityNames = []string{"packets", "bytes", "handshakes", "reliable_messages", "queued_bytes"}

// Names returns the words of the quantities.
func (Quantity) Names() []string { return quantityNames }

// String returns the name used in the configuration, logs and metrics.
func (q Quantity) String() string { return enum.Name(quantityNames, q) }

// UnmarshalText reads the form that String writes.
func (q *Quantity) UnmarshalText(text []byte) error { return enum.Parse(quantityNames, text, q) }

// Scope is the set of sources that share a Limit.
type Scope uint8

// Scopes, from the narrowest to the widest.
const (
	PerSession Scope = iota
	PerAddress
	PerNetwork
	Overall // all sessions of one Relay
	Scopes
)

var scopeNames = []string{"session", "address", "network", "overall"}

// Names returns the words of the scopes.
func (Scope) Names() []string { return scopeNames }

// String returns the name used in the configuration, logs and metrics.
func (s Scope) String() string { return enum.Name(scopeNames, s) }

// UnmarshalText reads the form that String writes.
func (s *Scope) UnmarshalText(text []byte) error { return enum.Parse(scopeNames, text, s) }

// Limit bounds a quantity within a scope. For QueuedBytes, Rate.PerSecond is the largest number of bytes at any time.
type Limit struct {
	Of      Quantity
	Per     Scope
	Rate    Rate
	Verdict Verdict // applied beyond the limit
}

// String returns the form used in logs and ban reasons, for example "packets per session".
func (l Limit) String() string {
	if l.Per == Overall {
		return l.Of.String() + " overall"
	}
	return l.Of.String() + " per " + l.Per.String()
}

// Verdict is the action on a datagram, message or new client that breaks a limit or matches a rule.
type Verdict uint8

// Verdicts, from the mildest to the hardest. A source without a session can only be dropped.
const (
	Pass       Verdict = iota
	Observe            // let it pass, and count what would have happened
	Drop               // drop it
	Disconnect         // drop it and end the session
	BanSource          // end the session and ban the address, if the session has proved it
)

var verdictNames = []string{"pass", "observe", "drop", "disconnect", "ban"}

// String returns the name used in the configuration, logs and metrics.
func (v Verdict) String() string { return enum.Name(verdictNames, v) }

// Rates are the events per second that a Budget passes. As many may pass at once after a second of rest. Both are at
// least 1.
type Rates struct {
	Overall int
	Network int // of each source network: IPv4 /24, IPv6 /48
}

// Budget bounds events overall and per source network, in 64 KiB from the first event on. Networks share HashedBuckets.
// It is not safe for concurrent use.
type Budget struct {
	start                      time.Time // of the buckets' time: the first call of Allow
	seed                       uint64
	overall                    Bucket
	networks                   *HashedBuckets // nil before start
	overallEvery, networkEvery time.Duration  // between events
	overallDepth, networkDepth time.Duration
}

// NewBudget returns a full Budget. The seed decides which networks share a bucket; strangers should not know it.
func NewBudget(r Rates, seed uint64) *Budget {
	b := &Budget{seed: seed, overallEvery: every(r.Overall), networkEvery: every(r.Network)}
	b.overallDepth = b.overallEvery * time.Duration(max(r.Overall, 1))
	b.networkDepth = b.networkEvery * time.Duration(max(r.Network, 1))
	return b
}

// every is the time between events of a rate, rounded up so that the rate is never exceeded.
func every(rate int) time.Duration { return Rate{PerSecond: max(rate, 1)}.price(1) }

// Allow reports whether an event of a source may pass now, and counts it if so. An event that only the overall rate
// refuses still counts towards its network.
func (b *Budget) Allow(now time.Time, from netip.Addr) bool {
	if b.start.IsZero() {
		b.start, b.networks = now, NewHashedBuckets(b.seed)
	}
	at := now.Sub(b.start)
	network := b.networks.Of(source.Of(from).Network())
	return network.take(at, b.networkEvery, b.networkDepth) && b.overall.take(at, b.overallEvery, b.overallDepth)
}
