package ratelimit

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Account names what one source has used of a Limit per address or per network.
type Account struct {
	Source netip.Prefix // an address has all its bits
	Of     Quantity
	Per    Scope
	Late   bool // handshakes of clients that have proved their address only afterwards
}

// Spending is the part of an account that has been used: the time in which the limit's rate pays for it. So nodes with
// several loops, each with its share of the rate, use the same unit.
type Spending struct {
	Account
	Used time.Duration
}

// Sizes of Talkers: 64 KiB.
const (
	talkerSets = 128
	talkerWays = 8
)

// Talkers finds the accounts that use most of their budgets, in memory that does not grow. It is the Space-Saving
// algorithm in sets: an account has a place in the set of its hash, and a new account takes the smallest place. An
// account may lose up to an eighth of the amounts in its set, and never gets more than its own. It is not safe for
// concurrent use.
type Talkers struct {
	seed uint64
	sets [talkerSets][talkerWays]talker
}

// talker is a place of an account.
type talker struct {
	Spending
	foreign time.Duration // the part of Used that earlier accounts of the place may have used
}

// NewTalkers returns empty Talkers. The seed decides which accounts share a set; strangers should not know it.
func NewTalkers(seed uint64) *Talkers { return &Talkers{seed: seed} }

// Note counts an amount of n that an account has used of a rate.
func (t *Talkers) Note(a Account, r Rate, n int) {
	used := r.price(n)
	set := &t.sets[t.hash(&a)%talkerSets]
	smallest := &set[0]
	for i := range set {
		p := &set[i]
		if p.Account == a {
			p.Used += used
			return
		}
		if p.Used < smallest.Used {
			smallest = p
		}
	}
	*smallest = talker{Spending{a, smallest.Used + used}, smallest.Used}
}

// hash returns the seeded hash of an account.
func (t *Talkers) hash(a *Account) uint64 {
	kind := uint16(a.Of) | uint16(a.Per)<<4
	if a.Late {
		kind |= 1 << 8
	}
	return Hash(a.Source.Addr(), kind, t.seed)
}

// Take appends what the accounts have surely used since the last Take, if it is at least a given time, and forgets all.
func (t *Talkers) Take(all []Spending, least time.Duration) []Spending {
	for i := range t.sets {
		for j := range t.sets[i] {
			p := &t.sets[i][j]
			if own := p.Used - p.foreign; own > 0 && own >= least {
				all = append(all, Spending{p.Account, own})
			}
		}
	}
	clear(t.sets[:])
	return all
}

// Top adds up the spendings of each account, and returns the largest ones, the largest first.
func Top(all []Spending, most int) []Spending {
	sums := make(map[Account]time.Duration, len(all))
	for _, s := range all {
		sums[s.Account] += s.Used
	}
	top := make([]Spending, 0, len(sums))
	for a, used := range sums {
		top = append(top, Spending{a, used})
	}
	slices.SortFunc(top, func(a, b Spending) int { return cmp.Compare(b.Used, a.Used) })
	return top[:min(len(top), most)]
}
