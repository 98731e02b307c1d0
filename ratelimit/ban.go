package ratelimit

import (
	"net/netip"
	"time"
)

// Automatic is the author of bans that limits and rules impose.
const Automatic = "tidegate"

// Ban keeps the clients of a network out.
type Ban struct {
	Prefix netip.Prefix // masked, and never IPv4 within IPv6
	Reason string
	Author string    // who imposed it
	Since  time.Time // when it was last imposed
	Until  time.Time // zero: for ever
	Times  int       // how often in a row it was imposed automatically; a ban that is over is kept to count on
}

// Active reports whether the ban is in force.
func (b *Ban) Active(now time.Time) bool { return b.Until.IsZero() || now.Before(b.Until) }

// equal reports whether two bans say the same.
func (b Ban) equal(o Ban) bool {
	return b.Prefix == o.Prefix && b.Reason == o.Reason && b.Author == o.Author && b.Since.Equal(o.Since) &&
		b.Until.Equal(o.Until) && b.Times == o.Times
}

// plain is a time as a store gives it back.
func plain(t time.Time) time.Time { return t.Truncate(time.Second).UTC() }

// Terms are those of automatic bans.
type Terms struct {
	First    time.Duration // how long the first one of a network lasts; each further one twice as long
	Longest  time.Duration
	Memory   time.Duration // how long after its end a ban counts towards the length of the next
	Networks Networks      // what is banned for one address
}

// length is how long the n-th ban in a row lasts, n from 1.
func (t *Terms) length(n int) time.Duration {
	d := t.First
	for ; n > 1 && d < t.Longest; n-- {
		d *= 2
	}
	return min(d, t.Longest)
}

// Networks are the sizes of networks, in bits of their addresses, whose clients count as one.
type Networks struct {
	V4, V6 int
}

// Of is the network of an address, which is masked and never IPv4 within IPv6.
func (n Networks) Of(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := n.V6
	if a.Is4() {
		bits = n.V4
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	return p
}

// Masked is a prefix as Bans know it: its host bits are zero, and IPv4 within IPv6 is IPv4.
func Masked(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
