package riptide

import (
	"time"

	"tidegate/codec/internal/prints"
)

// windowSize is the number of remembered sequence numbers from the oldest missing one on, a power of two.
const windowSize = 4096

// verdict is a window's decision on a sequence number.
type verdict uint8

const (
	fresh     verdict = iota // seen for the first time: deliver
	duplicate                // seen before: acknowledge, do not deliver
	beyond                   // too far ahead of a missing number to remember: drop, the peer will resend it
)

// window knows exactly, in bounded memory, which reliable messages have arrived. All numbers before base have arrived.
// One bit each tells it for the windowSize numbers from base on. docs/protocols/riptide.md#duplicates describes how
// the real library differs, and why.
type window struct {
	base   seq      `cbor:"1,keyasint"`           // oldest not received
	last   seq      `cbor:"2,keyasint"`           // newest received
	first  uint8    `cbor:"3,keyasint,omitempty"` // advances of last, up to 16: meaningful acknowledgement bits
	bits   []uint64 // bit (number mod windowSize); nil while no number is missing
	prints prints.Prints
	stuck  time.Time `cbor:"5,keyasint,omitempty"` // since when numbers have been beyond
}

// newWindow returns a window that expects s as the first number.
func newWindow(s seq) window {
	return window{base: s, last: s - 1, prints: prints.Prints{Wrap: 1 << 16}}
}

// furthest is by how much numbers beyond the window may be ahead of it. Only a peer that has given up a message comes
// so far, and it counts on by one.
const furthest = 64

// add records s and returns the decision on its message. A missing number is given up when other numbers have been
// beyond for longer than patience. So a peer that drops one of its messages does not block all later ones. A message
// with other content than the earlier ones under its number is fresh: one of them is forged.
func (w *window) add(now time.Time, s seq, print uint32, patience time.Duration) verdict {
	ahead := s.minus(w.base)
	if ahead >= windowSize {
		if ahead >= windowSize+furthest || !w.impatient(now, patience) {
			return beyond
		}
		w.skipTo(s - windowSize + 1)
		ahead = windowSize - 1
	}
	if ahead < 0 || w.bits != nil && w.isSet(s) {
		isLate := ahead < 0 && w.prints.Missed(int(s), -ahead)
		if !isLate && (ahead <= -prints.Most || !w.prints.Differs(int(s), print)) {
			return duplicate
		}
		w.prints.Add(time.Duration(now.UnixNano()), int(s), print, ahead)
		return fresh
	}
	w.prints.Add(time.Duration(now.UnixNano()), int(s), print, ahead)
	if s == w.base && !w.hasHoles() {
		w.advance(s)
		w.base++
		return fresh
	}
	if w.bits == nil {
		w.bits = make([]uint64, windowSize/64)
	}
	w.set(s)
	if w.last.before(s) {
		w.advance(s)
	}
	w.closeHole()
	return fresh
}

// acknowledge returns the acknowledgement of s, which was just added.
func (w *window) acknowledge(s seq) ack {
	a := ack{last: w.last, forSeq: s}
	if !w.hasHoles() {
		a.bits = 1<<w.first - 1
		return a
	}
	for i := range seq(w.first) {
		if old := w.last - i - 1; old.before(w.base) || w.isSet(old) {
			a.bits |= 1 << i
		}
	}
	return a
}

// relax frees memory that is not needed now.
func (w *window) relax() {
	if !w.hasHoles() {
		w.bits = nil
	}
}

func (w *window) hasHoles() bool { return w.base != w.last+1 }

func (w *window) impatient(now time.Time, patience time.Duration) bool {
	if !w.hasHoles() {
		return false
	}
	if w.stuck.IsZero() {
		w.stuck = now
	}
	return now.Sub(w.stuck) >= patience
}

// skipTo counts every number before s as received.
func (w *window) skipTo(s seq) {
	for range min(s.minus(w.base), windowSize) {
		w.clear(w.base)
		w.base++
	}
	w.base, w.stuck = s, time.Time{}
	w.closeHole()
}

func (w *window) closeHole() {
	for w.isSet(w.base) {
		w.clear(w.base)
		w.base++
		w.stuck = time.Time{}
	}
}

func (w *window) advance(s seq) {
	w.first = uint8(min(int(w.first)+s.minus(w.last), 16))
	w.last = s
}

func (w *window) isSet(s seq) bool { return w.bits[s%windowSize/64]&(1<<(s%64)) != 0 }
func (w *window) set(s seq)        { w.bits[s%windowSize/64] |= 1 << (s % 64) }
func (w *window) clear(s seq)      { w.bits[s%windowSize/64] &^= 1 << (s % 64) }

// Limits of a doorman.
const (
	leastGap    = 2                // how far ahead of the newest a number counts at any time
	mostGap     = 8                // the same, while messages may have been lost
	mostSilence = 15 * time.Second // no session survives a longer outage: the peer has sent none
	leastPace   = 5 * time.Millisecond
	mostPace    = 200 * time.Millisecond
	strayRun    = 4 // numbers that lead to one that counts, with itself
	strayTime   = 80 * time.Millisecond
	maxStrays   = 4
	strayRate   = time.Second            // one stray number in such a time is no sign of a forger
	fewStrays   = 3 * strayRate          // nor are so many at once
	mostDoubt   = 8 * strayRate          // for how long at most a forger is remembered
	reportLag   = 250 * time.Millisecond // how much older than 1.5 round trips a report may be
	reportStep  = 3                      // by how much a report may exceed the last but one
)

// doorman tells a peer's notify messages from those of a forger, who has to guess two numbers of 16 bits.
//
// The message's own number follows the newest. It may be as far ahead as the time since then explains. Another one is
// a stray. It counts when a run of strays, over strayTime, has led there: after an outage, or if the newest is forged.
//
// While strays are many, there is a forger. Then the number that the message reports has to fit as well: it continues
// the earlier reports, or it is as new as the path explains.
type doorman struct {
	said [2]seq `cbor:"1,keyasint"` // what the last two messages that counted have reported
	// sentBy has numbers that we had sent by two moments, older first. The path explains no older report.
	sentBy [2]seq           `cbor:"2,keyasint"`
	sentAt time.Time        `cbor:"3,keyasint,omitempty"`
	heard  time.Time        `cbor:"4,keyasint,omitempty"` // when the last message counted
	pace   time.Duration    `cbor:"5,keyasint,omitempty"` // smoothed time between two of the peer's numbers; zero: unknown
	doubt  time.Time        `cbor:"6,keyasint,omitempty"` // when all strays are forgotten
	strays [maxStrays]stray `cbor:"7,keyasint,omitempty"` // the latest last
}

// stray is the end of a run of numbers that do not count yet.
type stray struct {
	_     struct{} `cbor:",toarray"`
	seq   seq
	run   uint8 // their number; zero: none
	since time.Time
}

// sent notes that we send message s.
func (d *doorman) sent(now time.Time, s seq, rtt time.Duration) {
	if now.Sub(d.sentAt) >= reportLag+rtt*3/2 {
		d.sentBy, d.sentAt = [2]seq{d.sentBy[1], s}, now
	}
}

// admits reports whether a message with header h counts. It is gap ahead of the newest; next is our next number.
func (d *doorman) admits(now time.Time, h *notifyHeader, gap int, next seq) bool {
	isForged := d.doubt.Sub(now) > fewStrays
	isStray := gap <= 0 || gap > d.mostGap(now) || isForged && gap > leastGap
	if isStray {
		d.doubt = now.Add(min(max(d.doubt.Sub(now), 0)+strayRate, mostDoubt))
	}
	if isForged && !d.fits(h, next) || isStray && !d.isRun(now, h.seq) {
		return false
	}
	if gap > 0 && !d.heard.IsZero() {
		pace := min(max(now.Sub(d.heard)/time.Duration(gap), leastPace), mostPace)
		if d.pace == 0 {
			d.pace = pace
		}
		d.pace += (pace - d.pace) / 4
	}
	d.heard, d.said, d.strays = now, [2]seq{d.said[1], h.last}, [maxStrays]stray{}
	return true
}

// fits reports whether h reports a number that an honest peer may report. A real peer that a forger has misled reports
// numbers that we have not sent.
func (d *doorman) fits(h *notifyHeader, next seq) bool {
	least := d.said[0]
	if d.said[1].before(least) {
		least = d.said[1]
	}
	step := h.last.minus(least)
	return step >= 0 && (step <= reportStep || !h.last.before(d.sentBy[0]) && h.last.before(next))
}

// mostGap returns how far ahead of the newest a number counts.
func (d *doorman) mostGap(now time.Time) int {
	silent := now.Sub(d.heard)
	if d.pace == 0 || silent > mostSilence {
		return leastGap
	}
	return min(leastGap+int(2*silent/d.pace), mostGap)
}

// isRun reports whether others have led to number s. If not, it notes s.
func (d *doorman) isRun(now time.Time, s seq) bool {
	w, at := stray{since: now}, 0
	for i, o := range d.strays {
		if step := s.minus(o.seq); o.run > 0 && step > 0 && step <= leastGap {
			w, at = o, i
			break
		}
	}
	w.seq, w.run = s, min(w.run+1, strayRun)
	copy(d.strays[at:], d.strays[at+1:])
	d.strays[maxStrays-1] = w
	return w.run == strayRun && now.Sub(w.since) >= strayTime
}
