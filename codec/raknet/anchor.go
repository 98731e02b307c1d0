package raknet

import (
	"time"

	"tidegate/codec/internal/prints"
)

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
