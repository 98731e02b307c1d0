package ratelimit

import (
	"container/heap"
	"net/netip"
	"time"
)

// Automatic is the author of bans that limits and rules impose.
const Automatic = "tidegate"

// Ban rejects the clients of a network.
type Ban struct {
	Prefix netip.Prefix // masked, and never IPv4-mapped IPv6
	Reason string
	Author string    // who imposed the ban
	Since  time.Time // when the ban was last imposed
	Until  time.Time // zero: permanent
	Times  int       // automatic bans in a row; an expired ban is kept for this count
}

// Active reports whether the ban is in force.
func (b *Ban) Active(now time.Time) bool { return b.Until.IsZero() || now.Before(b.Until) }

// equal reports whether two bans have the same content.
func (b Ban) equal(o Ban) bool {
	return b.Prefix == o.Prefix && b.Reason == o.Reason && b.Author == o.Author && b.Since.Equal(o.Since) &&
		b.Until.Equal(o.Until) && b.Times == o.Times
}

// plain rounds a time to the form in which a store returns it.
func plain(t time.Time) time.Time { return t.Truncate(time.Second).UTC() }

// Terms are the parameters of automatic bans.
type Terms struct {
	First   time.Duration // duration of a network's first ban; each further ban lasts twice as long
	Longest time.Duration
	Memory  time.Duration // time after its end for which a ban counts towards the next one's length
}

// length is the duration of the n-th ban in a row, n from 1.
func (t *Terms) length(n int) time.Duration {
	d := t.First
	for ; n > 1 && d < t.Longest; n-- {
		d *= 2
	}
	return min(d, t.Longest)
}

// Masked returns a prefix in the form that Bans use: host bits zero, and IPv4-mapped IPv6 turned into IPv4.
func Masked(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// automaticBans finds the automatic ban that ends first. It is a heap that knows each ban's place by its prefix.
type automaticBans struct {
	bans   []*Ban
	places map[netip.Prefix]int
}

// add adds a ban if it is automatic.
func (a *automaticBans) add(ban *Ban) {
	if ban.Author == Automatic {
		a.remove(ban) // a store may list a prefix twice
		heap.Push(a, ban)
	}
}

// remove removes the automatic ban of a ban's prefix, if there is one.
func (a *automaticBans) remove(ban *Ban) {
	if i, ok := a.places[ban.Prefix]; ok {
		heap.Remove(a, i)
	}
}

// The methods below implement heap.Interface.

func (a *automaticBans) Len() int { return len(a.bans) }

// Less sorts by the end. A permanent ban ends last.
func (a *automaticBans) Less(i, j int) bool {
	x, y := a.bans[i].Until, a.bans[j].Until
	return !x.IsZero() && (y.IsZero() || x.Before(y))
}

func (a *automaticBans) Swap(i, j int) {
	a.bans[i], a.bans[j] = a.bans[j], a.bans[i]
	a.places[a.bans[i].Prefix], a.places[a.bans[j].Prefix] = i, j
}

func (a *automaticBans) Push(x any) {
	ban := x.(*Ban)
	if a.places == nil {
		a.places = make(map[netip.Prefix]int)
	}
	a.places[ban.Prefix] = len(a.bans)
	a.bans = append(a.bans, ban)
}

func (a *automaticBans) Pop() any {
	last := len(a.bans) - 1
	ban := a.bans[last]
	a.bans[last] = nil
	a.bans = a.bans[:last]
	delete(a.places, ban.Prefix)
	return ban
}
