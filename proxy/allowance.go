package proxy

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidegate/ratelimit"
)

// Unproved bounds what goes to clients that cannot prove their address, or have not yet, beyond three times what they
// sent: bytes a second on the wire, headers included, of all Relays together. Nothing is bounded if Overall is 0.
type Unproved struct {
	Session int // to one client
	Network int // to the clients of one network: IPv4 /24, IPv6 /48
	Overall int
	// Trusted are networks whose addresses nobody can forge: their clients are bound by nothing.
	Trusted []netip.Prefix
}

// trusts reports whether an address is of a trusted network.
func (u *Unproved) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(u.Trusted, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

// allowanceNetworks are what counts as one network.
var allowanceNetworks = ratelimit.Networks{V4: 24, V6: 48}

// grant is how many bytes a session takes of the Allowance at a time, so that few datagrams wait for its lock. What a
// session leaves of it is lost.
const grant = 4 << 10

// Allowance is what clients without proof may be sent. All Relays share it: of eight players of one network two may be
// one Relay's. Its memory is fixed. Networks share buckets by chance, which makes it stricter and never laxer.
type Allowance struct {
	born     time.Time
	mu       sync.Mutex
	networks *ratelimit.HashedBuckets
	overall  ratelimit.Bucket
}

// NewAllowance returns a full one. Networks share buckets by the seed, which strangers should not know.
func NewAllowance(now time.Time, seed uint64) *Allowance {
	return &Allowance{born: now, networks: ratelimit.NewHashedBuckets(seed)}
}

// spend reports whether a datagram may go to a client that has no credit left.
func (a *Allowance) spend(now time.Time, u *Unproved, t *trust, client netip.AddrPort, size int) bool {
	if u.Overall == 0 {
		return true
	}
	weight := wireSize(client, size)
	amount := max(weight, min(grant, u.Session))
	at := now.Sub(a.born)
	if !t.bucket.Take(at, rateOf(u.Session), amount) || !a.take(at, u, client.Addr(), amount) {
		return false
	}
	t.credit += amount - weight
	return true
}

// take takes bytes for a client of an address.
func (a *Allowance) take(now time.Duration, u *Unproved, from netip.Addr, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	network := a.networks.Of(allowanceNetworks.Of(from.Unmap()))
	return network.Take(now, rateOf(u.Network), n) && a.overall.Take(now, rateOf(u.Overall), n)
}

// rateOf lets a second's worth pass at once.
func rateOf(perSecond int) ratelimit.Rate {
	return ratelimit.Rate{PerSecond: perSecond, Burst: perSecond}
}
