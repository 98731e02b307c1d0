package ratelimit

import (
	"container/heap"
	"net/netip"
)

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
