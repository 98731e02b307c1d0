package raknet

import (
	"time"

	"tidegate/codec/internal/prints"
)

// maxReliableAhead is how many reliable messages may arrive ahead of a missing one. Stock RakNet keeps at most 512 in
// flight, the most generous other implementation 2048. A message beyond is refused: it is not acknowledged, so the
// peer sends it again. A power of two.
const maxReliableAhead = 2048

// reliableWindow knows which of the peer's reliable messages arrived, so that each is accepted once. Its memory grows
// with the distance from the oldest missing number to the newest arrived one. It is nothing while no message is
// missing.
type reliableWindow struct {
	base Seq24    // oldest that has not arrived
	next Seq24    // one more than the newest that has arrived
	seen []uint64 // bit n mod size: n, one of the size numbers from base on, arrived; size is a power of two

	prints prints.Prints
}

// judge says whether a message is fresh, stale, or refused as too far ahead. One with another content than the message
// that came under its number is fresh.
func (w *reliableWindow) judge(n Seq24, print uint32) verdict {
	ahead := n.Sub(w.base)
	switch {
	case ahead >= maxReliableAhead:
		return refused
	case ahead >= 0 && (ahead >= w.size() || !w.has(n)):
		return fresh
	case ahead > -prints.Most && w.prints.Differs(int(n), print):
		return fresh
	}
	return stale
}

// arrived reports whether a message came under the number before.
func (w *reliableWindow) arrived(n Seq24) bool {
	ahead := n.Sub(w.base)
	return ahead < 0 || ahead < w.size() && w.has(n)
}

// add records a fresh message.
func (w *reliableWindow) add(now time.Duration, n Seq24, print uint32) {
	known := w.arrived(n)
	if w.prints.Add(now, int(n), print, n.Sub(w.base)); known {
		return
	}
	if !n.Before(w.next) {
		w.next = n.Add(1)
	}
	if n == w.base && len(w.seen) == 0 {
		w.base = n.Add(1)
		return
	}
	for n.Sub(w.base) >= w.size() {
		w.grow()
	}
	w.seen[int(n)&(w.size()-1)/64] |= 1 << (n % 64)
	for w.has(w.base) {
		w.seen[int(w.base)&(w.size()-1)/64] &^= 1 << (w.base % 64)
		w.base = w.base.Add(1)
	}
}

// release frees the memory if no message is missing.
func (w *reliableWindow) release() {
	for _, word := range w.seen {
		if word != 0 {
			return
		}
	}
	w.seen = nil
}

func (w *reliableWindow) size() int { return 64 * len(w.seen) }

func (w *reliableWindow) has(n Seq24) bool {
	return w.seen[int(n)&(w.size()-1)/64]&(1<<(n%64)) != 0
}

func (w *reliableWindow) grow() {
	grown := reliableWindow{seen: make([]uint64, max(1, 2*len(w.seen)))}
	for i := range w.size() {
		if n := w.base.Add(i); w.has(n) {
			grown.seen[int(n)&(grown.size()-1)/64] |= 1 << (n % 64)
		}
	}
	w.seen = grown.seen
}
