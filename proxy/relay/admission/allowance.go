package admission

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidegate/internal/source"
	"tidegate/ratelimit"
)

// Unproved bounds the bytes to clients that cannot prove their address, or have not yet. Three times the bytes that a
// client sent are free. Beyond that the bounds are bytes per second on the wire, headers included, of all Relays
// together. If Overall is 0, nothing is bounded.
type Unproved struct {
	Session int // to one client
	Network int // to the clients of one network: IPv4 /24, IPv6 /48
	Overall int
	// Trusted are networks whose addresses cannot be forged. Their clients have no bound.
	Trusted []netip.Prefix
}

// Trusts reports whether an address is in a trusted network.
func (u *Unproved) Trusts(a netip.Addr) bool {
	return slices.ContainsFunc(u.Trusted, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

// grant is the number of bytes that a session takes from the Allowance at once. So few datagrams wait for its lock.
// The part that a session leaves unused is lost.
const grant = 4 << 10

// Allowance is the number of bytes that may go to clients without proof of their address. All Relays share it, since
// the clients of one network can be at several Relays. Its memory is fixed. Networks can share a bucket by chance:
// that makes the Allowance stricter, never laxer.
type Allowance struct {
	born     time.Time
	mu       sync.Mutex
	networks *ratelimit.HashedBuckets
	overall  ratelimit.Bucket
}

// NewAllowance returns a full Allowance. The seed decides which networks share a bucket. Strangers should not know
// it.
func NewAllowance(now time.Time, seed uint64) *Allowance {
	return &Allowance{born: now, networks: ratelimit.NewHashedBuckets(seed)}
}

// Born returns the time from which on the buckets of Trusts count.
func (a *Allowance) Born() time.Time { return a.born }

// Spend reports whether a datagram may go to a client that has no credit left. size is in bytes, without headers.
func (a *Allowance) Spend(now time.Time, u *Unproved, t *Trust, client netip.AddrPort, size int) bool {
	if u.Overall == 0 {
		return true
	}
	weight := WireSize(client, size)
	amount := max(weight, min(grant, u.Session))
	at := now.Sub(a.born)
	if !t.Bucket.Take(at, rateOf(u.Session), amount) || !a.take(at, u, client.Addr(), amount) {
		return false
	}
	t.Credit += amount - weight
	return true
}

// take takes bytes from the buckets of an address.
func (a *Allowance) take(now time.Duration, u *Unproved, from netip.Addr, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	network := a.networks.Of(source.Of(from).Network())
	return network.Take(now, rateOf(u.Network), n) && a.overall.Take(now, rateOf(u.Overall), n)
}

// rateOf returns a rate that lets the bytes of one second pass at once.
func rateOf(perSecond int) ratelimit.Rate {
	return ratelimit.Rate{PerSecond: perSecond, Burst: perSecond}
}
