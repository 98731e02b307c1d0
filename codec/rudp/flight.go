package rudp

import (
	"time"

	"tidegate/codec"
)

// maxInFlight is how many packets a side sends without an acknowledgement. The next in turn is a DisconnectionNotify.
// docs/protocols/rudp.md#acks
const maxInFlight = 33

// flightSize is a power of two above maxInFlight.
const flightSize = 64

// flight numbers the packets we send and learns what became of them.
type flight struct {
	next  seq // of the next packet
	acked seq // newest that the peer has acknowledged
	began time.Time
	sent  [flightSize]time.Duration // since began, of packets in flight, by number mod flightSize

	receipts []carried // of messages in flight, oldest first
	answered int       // receipts before this index have been answered
}

// carried is a receipt and the packet that its message went in.
type carried struct {
	seq     seq
	receipt codec.Receipt
}

// newFlight begins with number next, as if all before it had been acknowledged.
func newFlight(now time.Time, next seq) flight {
	return flight{next: next, acked: next - 1, began: now}
}

// number counts a packet as sent and returns its number.
func (f *flight) number(now time.Time) seq {
	s := f.next
	f.sent[s%flightSize] = now.Sub(f.began)
	f.next++
	return s
}

// carry notes that packet s carries a message whose sender wants to know what becomes of it.
func (f *flight) carry(s seq, r codec.Receipt) {
	if len(f.receipts) == cap(f.receipts) && f.answered > len(f.receipts)/2 {
		f.receipts = append(f.receipts[:0], f.receipts[f.answered:]...)
		f.answered = 0
	}
	f.receipts = append(f.receipts, carried{s, r})
}

// isFull reports whether so much is unacknowledged that the connection counts as broken.
func (f *flight) isFull() bool { return f.next.minus(f.acked) > maxInFlight }

// stalledSince is when the oldest unacknowledged packet was sent.
func (f *flight) stalledSince() time.Time { return f.sentAt(f.acked + 1) }

func (f *flight) sentAt(s seq) time.Time { return f.began.Add(f.sent[s%flightSize]) }

// allows reports whether the peer can have received packet last as its newest: it was sent, and is not older than what
// the peer has acknowledged already.
func (f *flight) allows(last seq) bool { return last.minus(f.acked) >= 0 && last.minus(f.next) < 0 }

// acknowledge takes the peer's word for the packets up to a.last, which allows has been asked about. It reports how
// many packets were lost: what the peer had not received before a newer one it will drop. The receipts decided by this
// come from decide.
func (f *flight) acknowledge(a *acks) (lost int) {
	for f.acked != a.last {
		f.acked++
		if !a.has(f.acked) {
			lost++
		}
	}
	return lost
}

// decide returns the next receipt that a decides, oldest first.
func (f *flight) decide(a *acks) (r codec.Receipt, delivered, ok bool) {
	if f.answered == len(f.receipts) || f.receipts[f.answered].seq.minus(a.last) > 0 {
		return 0, false, false
	}
	oldest := f.receipts[f.answered]
	f.answered++
	return oldest.receipt, a.has(oldest.seq), true
}

// give returns the next receipt without an answer, oldest first, and forgets it.
func (f *flight) give() (r codec.Receipt, ok bool) {
	if f.answered == len(f.receipts) {
		return 0, false
	}
	f.answered++
	return f.receipts[f.answered-1].receipt, true
}
