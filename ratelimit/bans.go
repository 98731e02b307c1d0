package ratelimit

import (
	"container/heap"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
	"tidegate/internal/source"
)

// maxAutomatic bounds the automatic bans that are kept, active or expired. Beyond it, the ban that ends first makes
// room. Only proved addresses are banned, so filling the list takes that many real networks.
const maxAutomatic = 20_000

// Bans is the set of banned networks. It is safe for concurrent use. Find takes no lock, so that any number of loops
// may call it for each new client. Add, Remove and Offend hold the lock for microseconds, however many bans there are:
// only Sync and All take time for each ban, and they work outside the lock.
type Bans struct {
	table atomic.Pointer[bart.Table[*Ban]] // never changed once it is stored, only replaced

	mu          sync.Mutex // guards the fields below, and changes of table
	terms       Terms
	automatic   automaticBans
	pending     map[netip.Prefix]*Ban // changes since the last Sync; nil: removed
	subscribers []chan struct{}
}

// NewBans returns an empty set.
func NewBans(t Terms) *Bans {
	b := &Bans{terms: t, pending: make(map[netip.Prefix]*Ban)}
	b.table.Store(new(bart.Table[*Ban]))
	return b
}

// SetTerms changes the terms of automatic bans. Bans already imposed stay unchanged.
func (b *Bans) SetTerms(t Terms) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.terms = t
}

// Find returns the active ban of an address, or nil. The caller must not change the Ban.
func (b *Bans) Find(now time.Time, a netip.Addr) *Ban {
	table := b.table.Load()
	a = a.Unmap().WithZone("")
	ban, ok := table.Lookup(a)
	if !ok {
		return nil
	}
	if ban.Active(now) {
		return ban
	}
	return covering(table, now, a)
}

// covering returns the active ban of a wider network than an expired one, or nil.
func covering(table *bart.Table[*Ban], now time.Time, a netip.Addr) *Ban {
	for _, ban := range table.Supernets(netip.PrefixFrom(a, a.BitLen())) {
		if ban.Active(now) {
			return ban
		}
	}
	return nil
}

// Add imposes a ban. It replaces an earlier ban of the same prefix.
func (b *Bans) Add(ban Ban) {
	ban.Prefix = Masked(ban.Prefix)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(&ban)
	b.tell()
}

// Remove lifts the ban of a prefix and forgets its history. It reports whether there was one.
func (b *Bans) Remove(p netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = Masked(p)
	old, ok := b.table.Load().Get(p)
	if !ok {
		return false
	}
	b.drop(old)
	b.tell()
	return true
}

// Offend bans the network of an address that a session has proved, and returns the ban. Each ban in a row lasts longer.
// An active ban of the network stays unchanged.
func (b *Bans) Offend(now time.Time, a netip.Addr, reason string) Ban {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := source.Of(a).Address()
	old, ok := b.table.Load().Get(p)
	times := 1
	switch {
	case ok && old.Active(now):
		return *old
	case ok && old.Author == Automatic && now.Before(old.Until.Add(b.terms.Memory)):
		times = old.Times + 1
	case !ok && b.automatic.Len() >= maxAutomatic:
		b.drop(b.automatic.bans[0])
	}
	ban := &Ban{
		Prefix: p, Reason: reason, Author: Automatic, Times: times,
		Since: plain(now), Until: plain(now.Add(b.terms.length(times))),
	}
	b.put(ban)
	b.tell()
	return *ban
}

// Get returns the ban of exactly a prefix, active or expired. It takes no lock.
func (b *Bans) Get(p netip.Prefix) (Ban, bool) {
	ban, ok := b.table.Load().Get(Masked(p))
	if !ok {
		return Ban{}, false
	}
	return *ban, true
}

// All returns the bans by prefix. Expired bans that still count are included.
func (b *Bans) All() []Ban {
	all := make([]Ban, 0, b.Len())
	for _, ban := range b.table.Load().AllSorted() {
		all = append(all, *ban)
	}
	return all
}

// Active iterates over the bans in force at a time, in no order. The caller must not change a Ban.
func (b *Bans) Active(now time.Time) iter.Seq[*Ban] {
	return func(yield func(*Ban) bool) {
		for _, ban := range b.table.Load().All() {
			if ban.Active(now) && !yield(ban) {
				return
			}
		}
	}
}

// Subscribe returns a channel that becomes readable after the bans have changed.
func (b *Bans) Subscribe() <-chan struct{} {
	told := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribers = append(b.subscribers, told)
	return told
}

// Sync merges the bans with a store that other processes change too. load reads the store. store writes the result of
// load plus the changes made here since the last Sync; it is not called if nothing changes. Sync drops expired bans
// that no longer count. If load or store fails, the changes wait for the next Sync. Calls must not overlap.
func (b *Bans) Sync(now time.Time, load func() ([]Ban, error), store func([]Ban) error) error {
	before, changes, terms := b.takePending()
	stored, err := load()
	if err != nil {
		b.returnPending(changes)
		return err
	}
	joined := join(stored, changes)
	joined = slices.DeleteFunc(joined, func(ban Ban) bool { return terms.forgotten(now, &ban) })
	if len(changes) > 0 || len(joined) != len(stored) {
		err = store(joined)
	}
	if !holds(before, joined) {
		b.replace(joined)
	}
	if err != nil {
		b.returnPending(changes)
	}
	return err
}

// takePending returns the changes since the last Sync, and the table that has them and no later ones.
func (b *Bans) takePending() (*bart.Table[*Ban], map[netip.Prefix]*Ban, Terms) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := b.pending
	b.pending = make(map[netip.Prefix]*Ban)
	return b.table.Load(), changes, b.terms
}

// returnPending restores changes that could not be stored. Later changes take precedence. There are few of them, since
// Sync has just begun.
func (b *Bans) returnPending(changes map[netip.Prefix]*Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(changes, b.pending)
	b.pending = changes
}

// join applies changes to bans.
func join(stored []Ban, changes map[netip.Prefix]*Ban) []Ban {
	joined := make([]Ban, 0, len(stored)+len(changes))
	for _, ban := range stored {
		if _, changed := changes[ban.Prefix]; !changed {
			joined = append(joined, ban)
		}
	}
	for _, ban := range changes {
		if ban != nil {
			joined = append(joined, *ban)
		}
	}
	slices.SortFunc(joined, func(a, b Ban) int { return a.Prefix.Compare(b.Prefix) })
	return joined
}

// holds reports whether a table has exactly these bans, which are sorted by prefix.
func holds(table *bart.Table[*Ban], bans []Ban) bool {
	if table.Size() != len(bans) {
		return false
	}
	i := 0
	for _, ban := range table.AllSorted() {
		if !ban.equal(bans[i]) {
			return false
		}
		i++
	}
	return true
}

// replace sets the bans to the stored ones plus the changes made since they were read.
func (b *Bans) replace(stored []Ban) {
	table := new(bart.Table[*Ban])
	var automatic automaticBans
	for _, ban := range stored {
		table.Insert(ban.Prefix, &ban)
		automatic.add(&ban)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.table.Store(table)
	b.automatic = automatic
	for p, ban := range b.pending {
		if old, ok := b.table.Load().Get(p); ok {
			b.takeOut(old)
		}
		if ban != nil {
			b.putIn(ban)
		}
	}
	b.tell()
}

// forgotten reports whether a ban has expired and no longer counts.
func (t *Terms) forgotten(now time.Time, ban *Ban) bool {
	if ban.Active(now) {
		return false
	}
	return ban.Author != Automatic || !now.Before(ban.Until.Add(t.Memory))
}

// The methods put, drop, putIn and takeOut change the table. The caller holds mu.

func (b *Bans) put(ban *Ban) {
	if old, ok := b.table.Load().Get(ban.Prefix); ok {
		b.automatic.remove(old)
	}
	b.putIn(ban)
	b.pending[ban.Prefix] = ban
}

func (b *Bans) drop(ban *Ban) {
	b.takeOut(ban)
	b.pending[ban.Prefix] = nil
}

func (b *Bans) putIn(ban *Ban) {
	b.table.Store(b.table.Load().InsertPersist(ban.Prefix, ban))
	b.automatic.add(ban)
}

func (b *Bans) takeOut(ban *Ban) {
	b.table.Store(b.table.Load().DeletePersist(ban.Prefix))
	b.automatic.remove(ban)
}

// tell wakes the subscribers.
func (b *Bans) tell() {
	for _, told := range b.subscribers {
		select {
		case told <- struct{}{}:
		default: // the subscriber has not read the last wake-up yet
		}
	}
}

// Len returns the number of bans: active ones, and expired ones that still count. It is safe for concurrent use.
func (b *Bans) Len() int { return b.table.Load().Size() }

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
