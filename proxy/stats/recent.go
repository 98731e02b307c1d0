package stats

import (
	"net/netip"
	"time"

	"tidegate/ratelimit"
)

// Recent has 256 shelves of 8 drops, about 180 KiB for each Relay. An address has one shelf, which it shares with
// some others by chance. A flood from one address evicts that address's own drops and almost no other.
const (
	shelves   = 256
	shelfSize = 8
)

// RecentDrop is one dropped datagram or message, or several equal ones in a row.
type RecentDrop struct {
	At       time.Time // time of the last one
	Reason   Drop
	Listener string
	From     netip.AddrPort
	Bytes    int   // size of the last one
	Cause    error // may be nil; names the rule or limit
	Times    uint64
}

// Recent remembers the last drops by address. It allocates nothing.
type Recent struct {
	seed    uint64
	shelves [shelves]shelf
}

// NewRecent makes a Recent. A sender without the seed cannot choose the shelf of its address.
func NewRecent(seed uint64) *Recent { return &Recent{seed: seed} }

// shelf holds the last drops of the addresses that share it.
type shelf struct {
	drops [shelfSize]RecentDrop
	next  int
}

// Add remembers a drop. It does not allocate.
func (r *Recent) Add(now time.Time, why Drop, listener string, from netip.AddrPort, size int, err error) {
	switch why {
	case DropSourceRule, DropMessageRule, DropRate, DropHandshakes, DropMaxMessage: // names that are made once
	default:
		err = nil // the error may be unique and hold memory
	}
	s := &r.shelves[r.place(from.Addr())]
	last := &s.drops[(s.next+shelfSize-1)%shelfSize]
	if last.Times == 0 || last.From != from || last.Reason != why || last.Listener != listener || last.Cause != err {
		last = &s.drops[s.next]
		*last = RecentDrop{Reason: why, Listener: listener, From: from, Cause: err}
		s.next = (s.next + 1) % shelfSize
	}
	last.At, last.Bytes = now, size
	last.Times++
}

// Of appends the remembered drops of an address, oldest first.
func (r *Recent) Of(a netip.Addr, to []RecentDrop) []RecentDrop {
	s := &r.shelves[r.place(a)]
	for i := range shelfSize {
		if d := &s.drops[(s.next+i)%shelfSize]; d.Times > 0 && d.From.Addr().Unmap() == a.Unmap() {
			to = append(to, *d)
		}
	}
	return to
}

// All returns all remembered drops, at most shelves times shelfSize.
func (r *Recent) All() []RecentDrop {
	var all []RecentDrop
	for i := range r.shelves {
		for j := range r.shelves[i].drops {
			if d := &r.shelves[i].drops[j]; d.Times > 0 {
				all = append(all, *d)
			}
		}
	}
	return all
}

func (r *Recent) place(a netip.Addr) int { return int(ratelimit.Hash(a, 0, r.seed) % shelves) }
