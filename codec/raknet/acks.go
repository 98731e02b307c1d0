package raknet

// maxAckRanges bounds the ranges of datagram numbers that wait to be acknowledged or requested again. A range beyond
// the bound is forgotten: the peer sends those messages again.
const maxAckRanges = 256

// ackQueue is a sorted set of datagram numbers for an ACK or NACK, as ranges.
type ackQueue struct {
	ranges []ackRange
	count  int // number of numbers in all ranges
}

// add adds one number to the set. Numbers mostly come in order, so it searches backwards from the newest range.
func (q *ackQueue) add(n Seq24) {
	i := len(q.ranges)
	for i > 0 && n.Before(q.ranges[i-1].first) {
		i--
	}
	if i > 0 && !q.ranges[i-1].last.Before(n) {
		return
	}
	after := i > 0 && q.ranges[i-1].last.Add(1) == n
	before := i < len(q.ranges) && q.ranges[i].first == n.Add(1)
	switch {
	case after && before:
		q.ranges[i-1].last = q.ranges[i].last
		q.cut(i)
	case after:
		q.ranges[i-1].last = n
	case before:
		q.ranges[i].first = n
	case len(q.ranges) == maxAckRanges:
		return
	default:
		q.insert(i, ackRange{first: n, last: n})
	}
	q.count++
}

// addUpTo adds the count numbers up to and including last to the set.
func (q *ackQueue) addUpTo(last Seq24, count int) {
	for i := count - 1; i >= 0; i-- {
		q.add(last.Add(-i))
	}
}

// clear empties the set.
func (q *ackQueue) clear() { q.ranges, q.count = q.ranges[:0], 0 }

// set makes the set equal to another.
func (q *ackQueue) set(to *ackQueue) {
	q.ranges, q.count = append(q.ranges[:0], to.ranges...), to.count
}

// remove removes one number from the set.
func (q *ackQueue) remove(n Seq24) {
	for i := len(q.ranges) - 1; i >= 0; i-- {
		r := q.ranges[i]
		if n.Before(r.first) {
			continue
		}
		if r.last.Before(n) {
			return
		}
		q.count--
		switch {
		case r.first == r.last:
			q.cut(i)
		case n == r.first:
			q.ranges[i].first = n.Add(1)
		case n == r.last:
			q.ranges[i].last = n.Add(-1)
		case len(q.ranges) == maxAckRanges:
			q.count -= r.last.Sub(n)
			q.ranges[i].last = n.Add(-1)
		default:
			q.ranges[i].last = n.Add(-1)
			q.insert(i+1, ackRange{first: n.Add(1), last: r.last})
		}
		return
	}
}

// write appends an ACK or NACK of at most limit bytes to b, and removes its numbers from the set.
func (q *ackQueue) write(b []byte, kind datagramKind, limit int) []byte {
	w := beginAcks(b, kind, limit)
	written := 0
	for _, r := range q.ranges {
		if !w.add(r) {
			break
		}
		written++
		q.count -= r.last.Sub(r.first) + 1
	}
	q.ranges = append(q.ranges[:0], q.ranges[written:]...)
	return w.end()
}

func (q *ackQueue) insert(i int, r ackRange) {
	q.ranges = append(q.ranges, ackRange{})
	copy(q.ranges[i+1:], q.ranges[i:])
	q.ranges[i] = r
}

func (q *ackQueue) cut(i int) { q.ranges = append(q.ranges[:i], q.ranges[i+1:]...) }
