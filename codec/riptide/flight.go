package riptide

import (
	"iter"
	"time"

	"tidegate/codec"
)

// maxWaiting bounds the reliable messages of one connection that wait to be sent or acknowledged. It stays well under
// half of the sequence numbers, so that they can be compared.
const maxWaiting = 1 << 14

// flight holds our reliable messages from Send until their acknowledgement. Messages from oldest to before unsent have
// been sent. Messages from unsent to before next wait for room. A ring indexed by sequence number holds them. A list
// threaded through it keeps the sent ones in the order of their last transmission; the first is due first.
type flight struct {
	ring                 []inFlight // length a power of two, or nil
	oldest, unsent, next seq
	first, last          seq // ends of the list, if listed > 0
	listed               int
	bytes                int
	spare                buffers
}

// inFlight is one reliable message. Its datagram is nil if the place is free.
type inFlight struct {
	datagram   []byte
	sentAt     time.Time
	waited     time.Duration // from the first transmission to the last
	receipt    codec.Receipt
	sends      uint8
	prev, succ seq
}

// newFlight returns a flight that numbers its first message s.
func newFlight(s seq) flight { return flight{oldest: s, unsent: s, next: s} }

func (f *flight) isFull() bool { return f.next-f.oldest >= maxWaiting }
func (f *flight) isIdle() bool { return f.next == f.oldest }

// at returns the message with number s, which must be held.
func (f *flight) at(s seq) *inFlight { return &f.ring[int(s)&(len(f.ring)-1)] }

// get returns the message with number s if it was sent and is not acknowledged yet, else nil.
func (f *flight) get(s seq) *inFlight {
	if s.before(f.oldest) || !s.before(f.unsent) || f.at(s).datagram == nil {
		return nil
	}
	return f.at(s)
}

// hold keeps a datagram until its turn. The datagram has number f.next and is in a buffer of f.spare.
func (f *flight) hold(datagram []byte, r codec.Receipt) {
	if int(f.next-f.oldest) == len(f.ring) {
		f.grow()
	}
	*f.at(f.next) = inFlight{datagram: datagram, receipt: r}
	f.bytes += len(datagram)
	f.next++
}

// transmitNext takes the next waiting message for its first transmission, unless limit messages lie between it and the
// oldest unacknowledged one.
func (f *flight) transmitNext(now time.Time, limit int) (seq, bool) {
	if f.unsent == f.next || int(f.unsent-f.oldest) >= limit {
		return 0, false
	}
	s := f.unsent
	f.unsent++
	f.sent(now, s)
	return s, true
}

// acknowledge removes message s after its acknowledgement. It returns the message's record.
func (f *flight) acknowledge(s seq) (m inFlight, ok bool) {
	p := f.get(s)
	if p == nil {
		return inFlight{}, false
	}
	m = *p
	f.unlist(s)
	f.bytes -= len(m.datagram)
	f.spare.put(m.datagram)
	*p = inFlight{}
	for f.oldest != f.unsent && f.at(f.oldest).datagram == nil {
		f.oldest++
	}
	return m, true
}

// due returns the sent message with the oldest last transmission.
func (f *flight) due() (s seq, m *inFlight, ok bool) {
	if f.listed == 0 {
		return 0, nil, false
	}
	return f.first, f.at(f.first), true
}

// resend moves sent message s to the end of the list.
func (f *flight) resend(now time.Time, s seq) {
	f.unlist(s)
	m := f.at(s)
	m.waited += now.Sub(m.sentAt)
	f.sent(now, s)
}

// receipts returns the receipts of all held messages, in the order sent, and forgets them.
func (f *flight) receipts() iter.Seq[codec.Receipt] {
	return func(yield func(codec.Receipt) bool) {
		for s := f.oldest; s != f.next; s++ {
			r := f.at(s).receipt
			f.at(s).receipt = 0
			if r != 0 && !yield(r) {
				return
			}
		}
	}
}

// relax frees memory if no message is held.
func (f *flight) relax() {
	if f.isIdle() {
		f.ring = nil
		f.spare.relax()
	}
}

func (f *flight) sent(now time.Time, s seq) {
	m := f.at(s)
	m.sentAt = now
	m.sends++
	if f.listed == 0 {
		f.first = s
	} else {
		f.at(f.last).succ = s
		m.prev = f.last
	}
	f.last = s
	f.listed++
}

func (f *flight) unlist(s seq) {
	m := f.at(s)
	if s == f.first {
		f.first = m.succ
	} else {
		f.at(m.prev).succ = m.succ
	}
	if s == f.last {
		f.last = m.prev
	} else {
		f.at(m.succ).prev = m.prev
	}
	f.listed--
}

func (f *flight) grow() {
	old := *f
	f.ring = make([]inFlight, max(16, 2*len(old.ring)))
	for s := old.oldest; s != old.next; s++ {
		*f.at(s) = *old.at(s)
	}
}
