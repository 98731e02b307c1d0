package session

import (
	"math/bits"
	"time"
)

const (
	tick  = time.Millisecond // resolution of deadlines; an entry fires at most one tick late
	slots = 4096             // of the near deadlines, a tick each; a power of two

	farTicks = 1024 // of a far slot
	farSlots = 64   // further deadlines share them, and are looked at once per turn
)

// wheel is a hashed timing wheel of intrusive nodes. Arming, disarming and finding the next deadline are O(1) and do
// not allocate.
//
// Deadlines beyond slots*tick lie on a second wheel of farTicks. At the beginning of a far slot's time its entries move
// to the first wheel. So however many sessions have far deadlines, they wake a loop once in farTicks at most.
type wheel[T any] struct {
	start   time.Time // time of tick 0
	done    int64     // every node of this tick and earlier has fired
	farDone int64     // the nodes of the far slots up to this number have moved
	armed   int       // nodes on the wheel
	heads   [slots + farSlots]*Entry[T]
	used    [slots / 64]uint64 // one bit per near head that is not nil
	farUsed uint64             // the same of far heads
}

// arm puts e on the wheel for the first tick not before at, but always after now.
func (w *wheel[T]) arm(e *Entry[T], now, at time.Time) {
	w.disarm(e)
	due := int64((at.Sub(w.start) + tick - 1) / tick)
	e.due = max(due, w.tickOf(now)+1, w.done+1)
	w.armed++
	w.put(e)
}

// put links an entry into the slot of its tick.
func (w *wheel[T]) put(e *Entry[T]) {
	slot := nearSlot(e.due)
	if e.due-w.done > slots {
		slot = farSlot(e.due)
	}
	e.wheelNext = w.heads[slot]
	if e.wheelNext != nil {
		e.wheelNext.wheelPrev = e
	}
	w.heads[slot] = e
	w.mark(slot)
}

// nearSlot and farSlot return the slot of a tick on either wheel.
func nearSlot(due int64) int { return int(due % slots) }
func farSlot(due int64) int  { return slots + int(due/farTicks%farSlots) }

// mark notes whether a slot is empty.
func (w *wheel[T]) mark(slot int) {
	word := &w.farUsed
	if slot < slots {
		word = &w.used[slot/64]
	}
	if w.heads[slot] != nil {
		*word |= 1 << (slot % 64)
	} else {
		*word &^= 1 << (slot % 64)
	}
}

func (w *wheel[T]) disarm(e *Entry[T]) {
	if e.due == 0 {
		return
	}
	w.armed--
	w.unlink(e)
	e.due = 0
}

// unlink takes an entry out of its slot.
func (w *wheel[T]) unlink(e *Entry[T]) {
	if e.wheelNext != nil {
		e.wheelNext.wheelPrev = e.wheelPrev
	}
	if e.wheelPrev != nil {
		e.wheelPrev.wheelNext = e.wheelNext
	} else {
		slot := nearSlot(e.due)
		if w.heads[slot] != e {
			slot = farSlot(e.due)
		}
		w.heads[slot] = e.wheelNext
		w.mark(slot)
	}
	e.wheelNext, e.wheelPrev = nil, nil
}

// pop removes the next due entry from the wheel and returns it, or nil.
func (w *wheel[T]) pop(now time.Time) *Entry[T] {
	limit := w.tickOf(now)
	for w.done < limit {
		next, ok := w.next()
		if !ok || next > limit {
			w.done, w.farDone = limit, max(w.farDone, limit/farTicks)
			break
		}
		w.done = next - 1
		if !w.moveNear(next) {
			e := w.heads[nearSlot(next)]
			w.disarm(e)
			return e
		}
	}
	return nil
}

// moveNear moves the entries of the far slot that begins at a tick to the near wheel. Those of its next turns stay. It
// reports whether there is such a slot.
func (w *wheel[T]) moveNear(at int64) bool {
	slot, ok := w.nextFar()
	if !ok || slot*farTicks != at {
		return false
	}
	w.farDone = slot
	for e := w.heads[farSlot(at)]; e != nil; {
		next := e.wheelNext
		if e.due/farTicks == slot {
			w.unlink(e)
			w.put(e)
		}
		e = next
	}
	return true
}

// next returns the tick of the first entry on the near wheel, or at which the first used far slot begins, if that is
// earlier.
func (w *wheel[T]) next() (int64, bool) {
	near, ok := w.nextNear()
	far, isFar := w.nextFar()
	if isFar && (!ok || far*farTicks <= near) {
		return far * farTicks, true
	}
	return near, ok
}

// nextNear returns the tick of the first used slot after done.
func (w *wheel[T]) nextNear() (int64, bool) {
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

// nextFar returns the number of the first used far slot after farDone.
func (w *wheel[T]) nextFar() (int64, bool) {
	if w.farUsed == 0 {
		return 0, false
	}
	from := w.farDone + 1
	return from + int64(bits.TrailingZeros64(bits.RotateLeft64(w.farUsed, -int(from%farSlots)))), true
}

func (w *wheel[T]) tickOf(t time.Time) int64 { return int64(t.Sub(w.start) / tick) }

func (w *wheel[T]) timeOf(t int64) time.Time { return w.start.Add(time.Duration(t) * tick) }
