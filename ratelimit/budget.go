package ratelimit

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"
)

// Rates are the events a second that a Budget lets pass, and as many at once after a second of rest. Both are at least 1.
type Rates struct {
	Overall int
	Network int // of each network of sources: IPv4 /24, IPv6 /48
}

// places is how many networks have a share of their own. Beyond them, networks share by chance; none can take another's
// place, so a flood of forged sources makes a Budget stricter and never laxer.
const places = 4096

// Budget bounds events by the networks that they come from and overall, in memory that does not grow: 96 KiB. It is
// not safe for concurrent use.
type Budget struct {
	overall Limiter
	every   time.Duration
	burst   int
	seed    uint64
	free    [places]time.Time // as in Limiter
}

// NewBudget returns a full Budget. Networks share places by the seed, which strangers should not know.
func NewBudget(r Rates, seed uint64) *Budget {
	return &Budget{
		overall: Limiter{Every: every(r.Overall), Burst: r.Overall},
		every:   every(r.Network), burst: r.Network, seed: seed,
	}
}

// every is the time between events of a rate, rounded up so that the rate is never exceeded.
func every(rate int) time.Duration {
	rate = max(rate, 1)
	return (time.Second + time.Duration(rate-1)) / time.Duration(rate)
}

// Allow reports whether an event of a source may pass now, and counts it if so. What only the overall bound stops counts
// towards its network's.
func (b *Budget) Allow(now time.Time, from netip.Addr) bool {
	return allow(&b.free[b.place(from)], now, b.every, b.burst) && b.overall.Allow(now)
}

// place is that of a source's network.
func (b *Budget) place(from netip.Addr) int {
	from = from.Unmap()
	var network uint64
	if from.Is4() {
		ip := from.As4()
		network = 1<<63 | uint64(ip[0])<<16 | uint64(ip[1])<<8 | uint64(ip[2])
	} else {
		ip := from.As16()
		network = binary.BigEndian.Uint64(ip[:]) >> 16
	}
	high, low := bits.Mul64(network^b.seed, 0x9e3779b97f4a7c15)
	high, low = bits.Mul64(high^low, 0xbf58476d1ce4e5b9)
	return int((high ^ low) % places)
}
