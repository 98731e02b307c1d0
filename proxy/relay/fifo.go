package relay

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
