package stats

import (
	"net/netip"
	"time"

	"tidegate/ratelimit"
)

// What is remembered of drops: 256 shelves of 8, about 180 KiB a Relay. An address has one shelf, which it shares by
// chance: who floods from one address pushes out what that address did, and hardly anybody else's.
const (
	shelves   = 256
	shelfSize = 8
)

// RecentDrop is one datagram or message that went no further, or several alike in a row.
type RecentDrop struct {
	At       time.Time // of the last of them
	Reason   Drop
	Listener string
	From     netip.AddrPort
	Bytes    int   // of the last of them
	Cause    error // may be nil; names the rule or limit
	Times    uint64
}

// Recent remembers the last drops by address. It allocates nothing.
type Recent struct {
	seed    uint64
	shelves [shelves]shelf
}

// NewRecent makes a Recent that no sender can aim at, unless it knows the seed.
func NewRecent(seed uint64) *Recent { return &Recent{seed: seed} }

// shelf has the last drops of the addresses that share it.
type shelf struct {
	drops [shelfSize]RecentDrop
	next  int
}

// Add remembers a drop. It does not allocate.
func (r *Recent) Add(now time.Time, why Drop, listener string, from netip.AddrPort, size int, err error) {
	switch why {
	case DropSourceRule, DropMessageRule, DropRate, DropHandshakes: // whose errors are names, made once
	default:
		err = nil // it may be one of a kind, and hold memory
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

// Of appends what is remembered of an address, oldest first.
func (r *Recent) Of(a netip.Addr, to []RecentDrop) []RecentDrop {
	s := &r.shelves[r.place(a)]
	for i := range shelfSize {
		if d := &s.drops[(s.next+i)%shelfSize]; d.Times > 0 && d.From.Addr().Unmap() == a.Unmap() {
			to = append(to, *d)
		}
	}
	return to
}

func (r *Recent) place(a netip.Addr) int { return int(ratelimit.Hash(a, 0, r.seed) % shelves) }
