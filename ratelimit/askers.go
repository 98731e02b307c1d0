package ratelimit

import (
	"net/netip"
	"time"
)

// askersBits is how many bits each half of Askers has: 512 KiB.
const askersBits = 1 << 22

// askTime is how long a question is remembered, at least. Clients repeat theirs every second or so.
const askTime = 2 * time.Second

// Askers remembers who has asked, in 1 MiB. It takes some for having asked who have not, more of them the more there are
// (6 of 100 at 300,000 new sources a second), but forgets none within askTime. The zero Askers is not usable.
type Askers struct {
	seed       uint64
	young, old *asked
	turned     time.Duration // when young began; old began askTime before
}

// asked is a Bloom filter with two bits for each source.
type asked [askersBits / 64]uint64

// NewAskers returns Askers who remember nobody, and take their memory when they are first needed. The seed is as in
// NewCrowd.
func NewAskers(seed uint64) *Askers { return &Askers{seed: seed} }

// Again reports whether a source has asked before, at most twice askTime ago, and remembers that it has asked now.
func (a *Askers) Again(now time.Duration, from netip.AddrPort) bool {
	a.turn(now)
	h := hash(from.Addr(), from.Port(), a.seed)
	one, other := uint32(h)%askersBits, uint32(h>>32)%askersBits
	again := a.young.has(one, other) || a.old.has(one, other)
	a.young.add(one, other)
	return again
}

// turn forgets what is too old.
func (a *Askers) turn(now time.Duration) {
	switch age := now - a.turned; {
	case a.young == nil:
		a.young, a.old, a.turned = new(asked), new(asked), now
	case age >= 2*askTime:
		clear(a.young[:])
		clear(a.old[:])
		a.turned = now
	case age >= askTime:
		a.young, a.old = a.old, a.young
		clear(a.young[:])
		a.turned += askTime
	}
}

func (b *asked) has(one, other uint32) bool {
	return b[one/64]>>(one%64)&1 != 0 && b[other/64]>>(other%64)&1 != 0
}

func (b *asked) add(one, other uint32) {
	b[one/64] |= 1 << (one % 64)
	b[other/64] |= 1 << (other % 64)
}
