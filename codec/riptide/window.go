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
	base   seq      // oldest not received
	last   seq      // newest received
	first  uint8    // advances of last in all, up to 16: the number of meaningful acknowledgement bits
	bits   []uint64 // bit (number mod windowSize); nil while no number is missing
	prints prints.Prints
	stuck  time.Time // since when numbers have been beyond
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
