package rudp

import (
	"time"

	"tidegate/codec"
)

// maxInFlight is the number of packets that a side sends without an acknowledgement. The next packet is a
// DisconnectionNotify. docs/protocols/rudp.md#acks
const maxInFlight = 33

// flightSize is a power of two above maxInFlight.
const flightSize = 64

// flight numbers the packets that we send and learns their fate.
type flight struct {
	next  seq // number of the next packet
	acked seq // newest packet that the peer has acknowledged
	began time.Time
	sent  [flightSize]time.Duration // send times since began, of packets in flight, by number mod flightSize

	receipts []carried // receipts of messages in flight, oldest first
	answered int       // receipts before this index have been answered
}

// carried is a receipt and the number of the packet with its message.
type carried struct {
	_       struct{} `cbor:",toarray"`
	Packet  seq
	Receipt codec.Receipt
}

// newFlight returns a flight that starts with number next, as if the peer had acknowledged all packets before it.
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

// carry records that packet s carries a message with receipt r.
func (f *flight) carry(s seq, r codec.Receipt) {
	if len(f.receipts) == cap(f.receipts) && f.answered > len(f.receipts)/2 {
		f.receipts = append(f.receipts[:0], f.receipts[f.answered:]...)
		f.answered = 0
	}
	f.receipts = append(f.receipts, carried{Packet: s, Receipt: r})
}

// isFull reports whether as many packets are unacknowledged as may be.
func (f *flight) isFull() bool { return f.next.minus(f.acked) > maxInFlight }

// isOverdue reports whether the oldest of maxInFlight packets is so old that a packet a period would have filled the
// flight. The connection then counts as broken. A wake-up may have been late by a period.
func (f *flight) isOverdue(now time.Time, period time.Duration) bool {
	return now.Sub(f.sentAt(f.acked+1)) > (maxInFlight-1)*period
}

func (f *flight) sentAt(s seq) time.Time { return f.began.Add(f.sent[s%flightSize]) }

// allows reports whether last can be the newest packet that the peer has received. That packet must have been sent. It
// must not be older than a packet that the peer has acknowledged already.
func (f *flight) allows(last seq) bool { return last.minus(f.acked) >= 0 && last.minus(f.next) < 0 }

// acknowledge records the fate of all packets up to a.last, for which allows must have returned true. It returns the
// number of lost packets. A packet that the peer misses is lost, because the peer drops late packets. decide returns
// the receipts that this settles.
func (f *flight) acknowledge(a *acks) (lost int) {
	for f.acked != a.last {
		f.acked++
		if !a.has(f.acked) {
			lost++
		}
	}
	return lost
}

// decide returns the next receipt that a settles, oldest first.
func (f *flight) decide(a *acks) (r codec.Receipt, delivered, ok bool) {
	if f.answered == len(f.receipts) || f.receipts[f.answered].Packet.minus(a.last) > 0 {
		return 0, false, false
	}
	oldest := f.receipts[f.answered]
	f.answered++
	return oldest.Receipt, a.has(oldest.Packet), true
}

// unanswered returns the next receipt without an answer, oldest first, and forgets it.
func (f *flight) unanswered() (r codec.Receipt, ok bool) {
	if f.answered == len(f.receipts) {
		return 0, false
	}
	f.answered++
	return f.receipts[f.answered-1].Receipt, true
}

// rtt is the smoothed round-trip time: seven parts of the old value and one part of the new sample. It contains the
// wait for the peer's next packet, up to a period, like the library's own figures.
type rtt time.Duration

func (r *rtt) sample(d time.Duration) {
	if *r == 0 {
		*r = rtt(d)
		return
	}
	*r += (rtt(d) - *r) / 8
}

const (
	// maxWaiting bounds the messages that wait for a packet; Options.MaxQueued bounds their bytes.
	maxWaiting = 4096
	// maxJoined bounds the messages of one packet, and therefore the receipts in flight.
	maxJoined = 256
	// keptRoom is the memory in bytes that an empty outbox keeps for the next messages.
	keptRoom = 16 << 10
)

// outbox holds messages until their packet is sent. Their payloads are joined, as on the wire.
type outbox struct {
	payloads []byte
	waiting  []waiting
	taken    int // bytes at the start of payloads that were sent
	gone     int // messages at the start of waiting that were sent
}

// waiting is a message in the outbox.
type waiting struct {
	_       struct{} `cbor:",toarray"`
	Size    int
	Receipt codec.Receipt
}

// bytes returns the number of waiting payload bytes.
func (o *outbox) bytes() int { return len(o.payloads) - o.taken }

// count returns the number of waiting messages.
func (o *outbox) count() int { return len(o.waiting) - o.gone }

// add appends a message.
func (o *outbox) add(payload []byte, r codec.Receipt) {
	if o.taken > len(o.payloads)/2 {
		o.payloads = append(o.payloads[:0], o.payloads[o.taken:]...)
		o.taken = 0
	}
	if o.gone > len(o.waiting)/2 {
		o.waiting = append(o.waiting[:0], o.waiting[o.gone:]...)
		o.gone = 0
	}
	o.payloads = append(o.payloads, payload...)
	o.waiting = append(o.waiting, waiting{Size: len(payload), Receipt: r})
}

// take removes the messages of the next packet: the first one, and later ones while their total stays at most limit
// bytes. Both results belong to the outbox until the next add.
func (o *outbox) take(limit int) (joined []byte, messages []waiting) {
	size, n := 0, 0
	for n < min(o.count(), maxJoined) {
		next := o.waiting[o.gone+n].Size
		if n > 0 && size+next > limit {
			break
		}
		size += next
		n++
	}
	joined, messages = o.payloads[o.taken:o.taken+size], o.waiting[o.gone:o.gone+n]
	o.taken += size
	o.gone += n
	if o.count() == 0 {
		o.empty()
	}
	return joined, messages
}

func (o *outbox) empty() {
	o.payloads, o.waiting, o.taken, o.gone = o.payloads[:0], o.waiting[:0], 0, 0
	if cap(o.payloads) > keptRoom {
		o.payloads = nil
	}
	if cap(o.waiting) > maxJoined {
		o.waiting = nil
	}
}
