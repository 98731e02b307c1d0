package raknet

import (
	"slices"
	"time"

	"tidegate/codec/internal/prints"
)

// datagramHistory is how many of the newest datagram numbers are remembered to tell duplicates. maxJump is by how much
// a number may run ahead of the newest and count at once. A longer jump, as after an outage of the path, has to be
// confirmed. Only the last maxMissing of a hole are asked for, as stock RakNet does
// (docs/protocols/raknet/recovery.md#recovery-and-congestion).
const (
	datagramHistory = 1024
	maxJump         = 1024
	maxMissing      = 1000
)

// verdict is the decision on a number or a message.
type verdict uint8

const (
	fresh   verdict = iota
	stale           // seen already, or overtaken
	refused         // outside the window, or no room for it now
	early           // in the window or channel, but not next
)

// datagramWindow knows which of the peer's datagrams arrived.
type datagramWindow struct {
	next Seq24                        `cbor:"1,keyasint"`                         // one more than the newest
	seen [datagramHistory / 64]uint64 `cbor:"2,keyasint,omitempty" record:"list"` // bit n mod datagramHistory: n arrived
}

// judge says whether a datagram is fresh, stale, or refused: a stray, which is too far ahead, or too old to tell.
func (w *datagramWindow) judge(n Seq24) verdict {
	switch ahead := n.Sub(w.next); {
	case ahead >= maxJump, ahead < -datagramHistory:
		return refused
	case ahead >= 0:
		return fresh
	case w.seen[n/64%(datagramHistory/64)]&(1<<(n%64)) != 0:
		return stale
	}
	return fresh
}

// add records a fresh datagram. It returns the newly missing numbers before it: count numbers up to and including
// last.
func (w *datagramWindow) add(n Seq24) (last Seq24, count int) {
	ahead := n.Sub(w.next)
	for i := 0; i <= ahead && i < datagramHistory; i++ {
		w.clear(n.Add(-i))
	}
	w.seen[n/64%(datagramHistory/64)] |= 1 << (n % 64)
	if ahead < 0 {
		return 0, 0
	}
	w.next = n.Add(1)
	return n.Add(-1), min(ahead, maxMissing)
}

// clear forgets a datagram, so that it is fresh.
func (w *datagramWindow) clear(n Seq24) {
	w.seen[n/64%(datagramHistory/64)] &^= 1 << (n % 64)
}

// move takes a stray for the newest datagram. What was known of the numbers around it is forgotten.
func (w *datagramWindow) move(n Seq24) {
	w.seen = [len(w.seen)]uint64{}
	w.next = n.Add(1)
	w.seen[n/64%(datagramHistory/64)] |= 1 << (n % 64)
}

// Bounds of a reliable message's number. One beyond them is refused: it is not acknowledged, so the peer sends it
// again. Stock RakNet keeps at most 512 messages in flight. Cloudburst numbers a message when the game sends it, and
// its queue lets any number of later ones overtake it. It sends nothing new while those are not acknowledged.
const (
	maxReliableAhead = 2048    // of the newest that has arrived
	maxReliableSpan  = 1 << 14 // ahead of the oldest that has not; a power of two. Each takes 4 bytes of prints
	maxHastySpan     = 4096    // the same from go-raknet: less than a queue of 16 MiB takes at once
)

// reliableWindow knows which of the peer's reliable messages arrived, so that each is accepted once. Its memory grows
// with the distance from the oldest missing number to the newest arrived one. It is nothing while no message is
// missing.
type reliableWindow struct {
	base Seq24 `cbor:"7,keyasint"` // oldest that has not arrived
	next Seq24 `cbor:"8,keyasint"` // one more than the newest that has arrived
	// seen has bit n mod size if n, one of the size numbers from base on, has arrived; size is a power of two.
	seen []uint64 `cbor:"9,keyasint,omitempty"`

	prints prints.Prints
	far    far
	hasty  bool // maxHastySpan counts
}

// far is a message that was refused as too far ahead of the newest. If the peer repeats it for jamPatience, and nothing
// else comes, it waits for its acknowledgement, and the message counts.
type far struct {
	number Seq24
	print  uint32 // 0: none
	at     time.Duration
}

// judge says whether a message is fresh, stale, or refused as too far ahead. One with another content than the message
// that came under its number is fresh.
func (w *reliableWindow) judge(now time.Duration, n Seq24, print uint32) verdict {
	ahead := n.Sub(w.base)
	switch {
	case ahead >= maxReliableSpan, ahead >= maxHastySpan && w.hasty,
		n.Sub(w.next) >= maxReliableAhead && !w.jams(now, n, print):
		return refused
	case ahead >= 0 && (ahead >= w.size() || !w.has(n)):
		return fresh
	case ahead > -prints.Most && w.prints.Differs(int(n), print):
		return fresh
	}
	return stale
}

// jams reports whether the peer goes on only when a message counts that is far ahead.
func (w *reliableWindow) jams(now time.Duration, n Seq24, print uint32) bool {
	f := &w.far
	if f.print == 0 || now-f.at > 2*jamPatience {
		*f = far{n, print, now}
	}
	return n == f.number && print == f.print && now-f.at >= jamPatience
}

// arrived reports whether a message came under the number before.
func (w *reliableWindow) arrived(n Seq24) bool {
	ahead := n.Sub(w.base)
	return ahead < 0 || ahead < w.size() && w.has(n)
}

// add records a fresh message.
func (w *reliableWindow) add(now time.Duration, n Seq24, print uint32) {
	known := w.arrived(n)
	w.far.print = 0
	if w.prints.Add(now, int(n), print, min(n.Sub(w.base), maxReliableSpan-prints.Most)); known {
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
	if !slices.ContainsFunc(w.seen, func(word uint64) bool { return word != 0 }) {
		w.seen = nil
	}
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

// anchor is about where the peer's datagram numbers are. The window runs ahead at once, to notice missing
// ones, and so a forger can drag it away. The anchor follows numbers that continue it. A jump ahead needs two
// numbers that continue the jump. Unreliable messages near the anchor count, wherever the window is. One datagram's
// count once. A forged datagram under the same number has other content, and does not stand in their way.
type anchor struct {
	next  Seq24         // one more than the newest number that is confirmed
	at    time.Duration // when that came
	trial Seq24         // one more than a number that jumped ahead
	run   uint8         // numbers that continued the jump, and that one
	// loose has a bit for each number near: unreliable messages came under it. prints has their content.
	loose  [2 * anchorReach / 64]uint64
	prints prints.Prints
}

const (
	// anchorStep is by how much a number that continues others may be higher. A forger hits it seldom.
	anchorStep  = 4
	anchorRun   = 3
	anchorReach = 1024
)

// hear takes a number of the peer, or of a forger.
func (a *anchor) hear(now time.Duration, n Seq24) {
	ahead, more := n.Sub(a.next), n.Sub(a.trial)
	if ahead < 0 || ahead >= anchorReach {
		return
	}
	if ahead >= anchorStep {
		if more < 0 || more >= anchorStep {
			a.run = 0
		}
		if a.trial, a.run = n.Add(1), a.run+1; a.run < anchorRun {
			return
		}
	}
	for ; !n.Before(a.next); a.next = a.next.Add(1) {
		a.mark(a.next.Add(anchorReach), false)
	}
	a.at, a.run = now, 0
}

// holds reports whether a number is near.
func (a *anchor) holds(n Seq24) bool {
	ahead := n.Sub(a.next)
	return ahead >= -anchorReach && ahead < anchorReach
}

// move follows the window if the anchor's numbers are silent.
func (a *anchor) move(now time.Duration, n Seq24) {
	if now-a.at >= strayPatience {
		a.next, a.at, a.run, a.loose = n.Add(1), now, 0, [len(a.loose)]uint64{}
	}
}

// take reports whether the unreliable messages of a datagram count: none of it has come before.
func (a *anchor) take(now time.Duration, n Seq24, body []byte) bool {
	print := a.prints.Of(body, 0)
	if a.has(n) && !a.prints.Differs(int(n), print) {
		return false
	}
	a.mark(n, true)
	a.prints.Add(now, int(n), print, n.Sub(a.next))
	return true
}

func (a *anchor) has(n Seq24) bool { return a.loose[n/64%Seq24(len(a.loose))]&(1<<(n%64)) != 0 }

func (a *anchor) mark(n Seq24, came bool) {
	word := &a.loose[n/64%Seq24(len(a.loose))]
	*word &^= 1 << (n % 64)
	if came {
		*word |= 1 << (n % 64)
	}
}

// restore begins at a window that was saved. Whether its datagrams had unreliable messages is unknown, so all count as
// if they had.
func (a *anchor) restore(w *datagramWindow) {
	a.next = w.next
	for i := 1; i <= datagramHistory; i++ {
		if n := w.next.Add(-i); w.judge(n) == stale {
			a.mark(n, true)
		}
	}
}

// loose is the datagram in hand, for its unreliable messages. These have no numbers of their own.
type loose struct {
	number        Seq24
	body          []byte // nil once it is judged
	near, isFresh bool
}

// takesLoose reports whether the unreliable messages of the datagram in hand count. Outside of the window they do if
// the number is near the anchor.
func (r *receiver) takesLoose() bool {
	l := &r.loose
	if l.body != nil {
		l.isFresh = l.near && r.anchor.take(r.channels.now, l.number, l.body) || !l.near && r.scope == everything
		l.body = nil
	}
	if l.isFresh && r.scope != everything {
		r.fresh++
	}
	return l.isFresh
}
