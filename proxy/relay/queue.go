package relay

import "slices"

// line is a queue of sessions, first come, first served. The zero value is empty. A fifo would do, but the compiler
// of Go 1.26 crashes on an entry that leads to a generic type of entries.
type line struct {
	now, later []*Entry
	at         int // index of the first session that is left in now
}

func (l *line) len() int { return len(l.now) - l.at + len(l.later) }

func (l *line) push(e *Entry) { l.later = append(l.later, e) }

// all returns the sessions, first come first. It may share their memory.
func (l *line) all() []*Entry { return slices.Concat(l.now[l.at:], l.later) }

// popIf removes and returns the first session for which holds is true, or nil. It also removes the sessions before
// it.
func (l *line) popIf(holds func(*link) bool) *Entry {
	for {
		if e := l.pop(); e == nil || holds(&e.Value) {
			return e
		}
	}
}

// back returns the session that pop has just taken to the head of the line.
func (l *line) back(e *Entry) {
	l.at--
	l.now[l.at] = e
}

// pop removes and returns the first session, or nil.
func (l *line) pop() *Entry {
	if l.at == len(l.now) {
		l.now, l.later, l.at = l.later, l.now[:0], 0
	}
	if len(l.now) == 0 {
		return nil
	}
	e := l.now[l.at]
	l.now[l.at] = nil
	l.at++
	return e
}

// fifo is a queue over a ring that grows. The size of the ring is a power of two. A removed element stays in its slot
// until push uses the slot again. So its memory can be used again too. The zero value is empty.
type fifo[T any] struct {
	ring  []T
	first int
	n     int
}

func (q *fifo[T]) len() int { return q.n }

// push makes room for an element at the end. It returns the slot with its old content.
func (q *fifo[T]) push() *T {
	if q.n == len(q.ring) {
		larger := make([]T, max(8, 2*q.n))
		copied := copy(larger, q.ring[q.first:])
		copy(larger[copied:], q.ring[:q.first])
		q.ring, q.first = larger, 0
	}
	slot := &q.ring[(q.first+q.n)&(len(q.ring)-1)]
	q.n++
	return slot
}

// at returns the slot of element i, from the first one.
func (q *fifo[T]) at(i int) *T { return &q.ring[(q.first+i)&(len(q.ring)-1)] }

// pop removes the first element and returns its slot, or nil if the queue is empty. The slot is the caller's until
// the next push.
func (q *fifo[T]) pop() *T {
	if q.n == 0 {
		return nil
	}
	slot := &q.ring[q.first]
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
	return slot
}
