package proxy

import (
	"net/netip"
	"time"

	"tidegate/ratelimit"
)

// What is remembered of drops: 256 shelves of 8, about 180 KiB a Relay. An address has one shelf, which it shares by chance:
// who floods from one address pushes out what that address did, and hardly anybody else's.
const (
	shelves   = 256
	shelfSize = 8
)

// In a flood not all of it is remembered: that would take as long as all else that is done about it.
const (
	mostRemembered = 32 // of a turn
	rememberedOf   = 8  // beyond, one of so many
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

// recent remembers the last drops by address.
type recent struct {
	seed    uint64
	shelves [shelves]shelf
}

type shelf struct {
	drops [shelfSize]RecentDrop
	next  int
}

// add remembers a drop. It does not allocate.
func (r *recent) add(now time.Time, why Drop, listener string, from netip.AddrPort, size int, err error) {
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

// of appends what is remembered of an address, oldest first.
func (r *recent) of(a netip.Addr, to []RecentDrop) []RecentDrop {
	s := &r.shelves[r.place(a)]
	for i := range shelfSize {
		if d := &s.drops[(s.next+i)%shelfSize]; d.Times > 0 && d.From.Addr().Unmap() == a.Unmap() {
			to = append(to, *d)
		}
	}
	return to
}

func (r *recent) place(a netip.Addr) int { return int(ratelimit.Hash(a, 0, r.seed) % shelves) }
