package proxy

// fifo is a queue over a ring that grows. What leaves it stays in its slot until that is used again, so that its
// memory can be too. The zero value is empty.
type fifo[T any] struct {
	ring  []T
	first int
	n     int
}

func (q *fifo[T]) len() int { return q.n }

// push makes room for an element at the end, and returns its slot with whatever was left there.
func (q *fifo[T]) push() *T {
	if q.n == len(q.ring) {
		larger := make([]T, max(8, 2*q.n))
		copied := copy(larger, q.ring[q.first:])
		copy(larger[copied:], q.ring[:q.first])
		q.ring, q.first = larger, 0
	}
	slot := &q.ring[(q.first+q.n)%len(q.ring)]
	q.n++
	return slot
}

// pop takes the first element, or returns nil. Its slot is the caller's until the next push.
func (q *fifo[T]) pop() *T {
	if q.n == 0 {
		return nil
	}
	slot := &q.ring[q.first]
	q.first = (q.first + 1) % len(q.ring)
	q.n--
	return slot
}
