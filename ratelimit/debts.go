package ratelimit

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Bounds of Debts.
const (
	maxDebts = 4096      // accounts: some 400 KiB; what further ones have used elsewhere does not count
	maxBurst = time.Hour // that is believed of a node, so that no sum overflows
)

// Debts are the parts of budgets that sources have used at the other nodes of a fleet. This node charges them to the
// sources' Buckets, bit by bit. With n nodes, the charges take at most n-1 nths of a burst and of the rate. So a source
// that stays within the nth part of a limit never loses anything, even if the other nodes lie. It is not safe for
// concurrent use.
type Debts struct {
	all  map[Account]*debt
	last time.Duration // when they were charged
}

// debt is what an account owes.
type debt struct {
	owed time.Duration
	paid Bucket // bounds the charges
}

// Peers are the nodes that share their limits.
type Peers struct {
	Nodes int           // with this one
	Every time.Duration // between two reports of a node
}

// others returns the number of other nodes: at least the one that has made the debt.
func (p Peers) others() time.Duration { return time.Duration(max(p.Nodes-1, 1)) }

// Least returns what an account must have used between two reports to be worth reporting. If all nodes keep less to
// themselves, they exceed the limit by an eighth at most.
func (p Peers) Least() time.Duration { return p.Every / 8 / (p.others() + 1) }

// Add adds what one node has reported of an account since its last report. The rate is that of the account's limit. A
// node can use no more than a burst and what the rate passes meanwhile; more is not believed.
func (d *Debts) Add(s Spending, r Rate, p Peers) {
	one := d.all[s.Account]
	if one == nil {
		if len(d.all) >= maxDebts {
			return
		}
		if d.all == nil {
			d.all = make(map[Account]*debt)
		}
		one = new(debt)
		d.all[s.Account] = one
	}
	most := min(r.price(r.Burst), maxBurst) + 2*p.Every // one report may be late
	one.owed = min(one.owed+min(s.Used, most), p.others()*most)
}

// Pay charges each account's Bucket as much of the debt as may be charged now. find returns the rate of an account's
// limit, and its Bucket, or nil if the source has none now. Then the debt is paid by time, as a Bucket refills, and the
// rest waits for the source. ok is false if there is no such limit.
func (d *Debts) Pay(now time.Duration, p Peers, find func(Account) (b *Bucket, r Rate, ok bool)) {
	for a, one := range d.all {
		b, r, ok := find(a)
		if !ok {
			delete(d.all, a)
			continue
		}
		if b != nil {
			b.charge(now, one.pay(now, max(r.price(r.Burst), p.Every), p.others()))
		} else {
			one.owed = max(0, one.owed-(now-d.last))
		}
		if one.owed == 0 && time.Duration(one.paid) <= now {
			delete(d.all, a)
		}
	}
	d.last = now
}

// pay takes the part of the debt that may be charged now. With n others, all charges of any time t are at most n parts
// of n+1 of depth and t.
func (d *debt) pay(now, depth, others time.Duration) (charge time.Duration) {
	since := max(time.Duration(d.paid), now)
	charge = min(d.owed, max(0, now+depth-since)/(others+1)*others)
	d.owed -= charge
	d.paid = Bucket(since + charge/others*(others+1))
	return charge
}

// Len returns the number of accounts with a debt.
func (d *Debts) Len() int { return len(d.all) }

// charge takes the price of events that have passed elsewhere, also from an empty Bucket.
func (b *Bucket) charge(now, price time.Duration) { *b = Bucket(max(time.Duration(*b), now) + price) }

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
