package session

import (
	"math/bits"
	"time"
)

const (
	tick  = time.Millisecond // resolution of deadlines; an entry fires at most one tick late
	slots = 4096             // a power of two; the wheel looks at deadlines beyond slots*tick once per turn
)

// wheel is a hashed timing wheel of intrusive nodes. Arming, disarming and finding the next deadline are O(1) and do
// not allocate.
type wheel[T any] struct {
	start time.Time // time of tick 0
	done  int64     // every node of this tick and earlier has fired
	armed int       // nodes on the wheel
	heads [slots]*Entry[T]
	used  [slots / 64]uint64 // one bit per head that is not nil
}

// arm puts e on the wheel for the first tick not before at, but always after now.
func (w *wheel[T]) arm(e *Entry[T], now, at time.Time) {
	w.disarm(e)
	due := int64((at.Sub(w.start) + tick - 1) / tick)
	e.due = max(due, w.tickOf(now)+1, w.done+1)
	slot := e.due % slots
	e.wheelNext = w.heads[slot]
	if e.wheelNext != nil {
		e.wheelNext.wheelPrev = e
	}
	w.heads[slot] = e
	w.armed++
	w.used[slot/64] |= 1 << (slot % 64)
}

func (w *wheel[T]) disarm(e *Entry[T]) {
	if e.due == 0 {
		return
	}
	w.armed--
	slot := e.due % slots
	if e.wheelPrev != nil {
		e.wheelPrev.wheelNext = e.wheelNext
	} else {
		w.heads[slot] = e.wheelNext
	}
	if e.wheelNext != nil {
		e.wheelNext.wheelPrev = e.wheelPrev
	}
	if w.heads[slot] == nil {
		w.used[slot/64] &^= 1 << (slot % 64)
	}
	e.wheelNext, e.wheelPrev, e.due = nil, nil, 0
}

// pop removes the next due entry from the wheel and returns it, or nil.
func (w *wheel[T]) pop(now time.Time) *Entry[T] {
	limit := w.tickOf(now)
	for w.done < limit {
		next, ok := w.next()
		if !ok || next > limit {
			w.done = limit
			break
		}
		w.done = next - 1
		for e := w.heads[next%slots]; e != nil; e = e.wheelNext {
			if e.due <= limit {
				w.disarm(e)
				return e
			}
		}
		w.done = next
	}
	return nil
}

// next returns the tick of the first used slot after done.
func (w *wheel[T]) next() (int64, bool) {
	from := (w.done + 1) % slots
	word, bit := from/64, from%64
	if rest := w.used[word] >> bit; rest != 0 {
		return w.done + 1 + int64(bits.TrailingZeros64(rest)), true
	}
	ahead := 64 - bit // slots passed so far
	for i := int64(1); i <= slots/64; i++ {
		if set := w.used[(word+i)%(slots/64)]; set != 0 {
			return w.done + 1 + ahead + int64(bits.TrailingZeros64(set)), true
		}
		ahead += 64
	}
	return 0, false
}

func (w *wheel[T]) tickOf(t time.Time) int64 { return int64(t.Sub(w.start) / tick) }

func (w *wheel[T]) timeOf(t int64) time.Time { return w.start.Add(time.Duration(t) * tick) }
