package riptide

import (
	"slices"
	"time"

	"tidegate/codec"
)

// maxNotifyReceipts bounds the notify receipts that wait for the peer's report. A peer that never sends notify
// messages of its own never reports. The oldest receipt then counts as lost.
const maxNotifyReceipts = 1024

// notifyReach is the number of messages, back from its last, that a notify header covers.
const notifyReach = 9

// notifyMemory is the number of messages, back from the newest, that we remember until headers have reported them:
// four seconds at 60 messages per second. Older messages count as lost.
const notifyMemory = 256

// notifier numbers notify messages, drops late ones and learns which of ours arrived. docs/protocols/riptide.md#notify
type notifier struct {
	next     seq `cbor:"1,keyasint"` // number of the next message that we send
	acked    seq `cbor:"2,keyasint"` // newest of ours that the peer has reported
	last     seq `cbor:"3,keyasint"` // newest received
	reported seq `cbor:"6,keyasint"` // the last that a header of ours has reported
	// arrivals are those of the newest notifyMemory: bit s mod notifyMemory says that s was received.
	arrivals [notifyMemory / 64]uint64 `cbor:"7,keyasint"`
	doorman  *doorman                  `cbor:"11,keyasint,omitempty"` // nil: none was needed yet
	receipts []notifyReceipt
	answered int // receipts before this index have been answered
}

type notifyReceipt struct {
	_       struct{} `cbor:",toarray"`
	Number  seq
	Receipt codec.Receipt
}

// newNotifier returns a notifier that begins with number s in both directions. As in the library, the number before s
// counts as received.
func newNotifier(s seq) notifier {
	n := notifier{next: s, acked: s - 1, last: s - 1, reported: s - 1}
	n.note(s-1, true)
	return n
}

// header returns the header of the next message that we send; number counts it as sent.
func (n *notifier) header() notifyHeader {
	h := notifyHeader{last: n.reportable(), seq: n.next}
	for back := seq(1); back < notifyReach; back++ {
		if n.arrived(h.last - back) {
			h.bits |= 1 << (back - 1)
		}
	}
	return h
}

func (n *notifier) number(now time.Time, rtt time.Duration) {
	n.reported = n.reportable()
	n.guard().sent(now, n.next, rtt)
	n.next++
}

// reportable returns the last number that the next header reports. Many messages may have arrived since the previous
// header. If the header named the newest of them, all messages beyond the reach of its bits would count as lost.
// Therefore it names the newest number whose bits reach the first unreported one.
func (n *notifier) reportable() seq {
	if n.reported == n.last {
		return n.last
	}
	first := n.reported + 1
	for !n.arrived(first) {
		first++
	}
	newest := first + notifyReach - 1
	if n.last.before(newest) {
		newest = n.last
	}
	for !n.arrived(newest) {
		newest--
	}
	return newest
}

// arrived reports whether message s was received. s is one of the newest notifyMemory messages.
func (n *notifier) arrived(s seq) bool {
	at := s % notifyMemory
	return n.arrivals[at/64]&(1<<(at%64)) != 0
}

func (n *notifier) note(s seq, arrived bool) {
	at := s % notifyMemory
	n.arrivals[at/64] &^= 1 << (at % 64)
	if arrived {
		n.arrivals[at/64] |= 1 << (at % 64)
	}
}

// ask keeps the receipt of the newest numbered message. It returns the receipt that had to make room, or zero.
func (n *notifier) ask(s seq, r codec.Receipt) (lost codec.Receipt) {
	if n.answered == len(n.receipts) {
		n.receipts, n.answered = n.receipts[:0], 0
	}
	if len(n.receipts)-n.answered == maxNotifyReceipts {
		lost = n.receipts[n.answered].Receipt
		n.answered++
	}
	if n.answered > maxNotifyReceipts {
		n.receipts = append(n.receipts[:0], n.receipts[n.answered:]...)
		n.answered = 0
	}
	n.receipts = append(n.receipts, notifyReceipt{Number: s, Receipt: r})
	return lost
}

func (n *notifier) guard() *doorman {
	if n.doorman == nil {
		n.doorman = &doorman{said: [2]seq{n.acked, n.acked}, sentBy: [2]seq{n.acked, n.acked}}
	}
	return n.doorman
}

// receive takes the peer's message with header h. It returns why the message is dropped, if it is. Only a message that
// counts changes what our headers report, or may report on ours.
func (n *notifier) receive(now time.Time, h *notifyHeader) error {
	gap := h.seq.minus(n.last)
	switch {
	case gap > -notifyMemory && gap <= 0 && n.arrived(h.seq):
		return codec.ErrDuplicate
	case n.guard().admits(now, h, gap, n.next):
		n.count(h.seq, gap)
		return nil
	case gap <= 0:
		return codec.ErrDuplicate
	}
	return codec.ErrWindow
}

// count makes s, which is gap ahead, the newest number.
func (n *notifier) count(s seq, gap int) {
	if gap <= 0 { // the numbers from there on were forged
		n.arrivals = [len(n.arrivals)]uint64{}
		n.last, n.reported = s-1, s-1
		n.note(s-1, true)
		gap = 1
	}
	for i := range min(gap, notifyMemory) {
		n.note(s-seq(i), i == 0)
	}
	const most = notifyMemory - notifyReach // leaves room for the bits of a header behind reported
	if n.last.minus(n.reported)+gap > most {
		n.reported = s - most
	}
	n.last = s
}

// acknowledged handles the peer's report h on our messages. news says that h is new, and lost how many messages it
// shows to be lost. decide returns the receipts that h settles. Unlike in the library, losses never end the session:
// where few messages come back, a forger's reports could.
func (n *notifier) acknowledged(h *notifyHeader) (news bool, lost int) {
	gap := h.last.minus(n.acked)
	if gap <= 0 || !h.last.before(n.next) {
		return false, 0
	}
	for s := h.last + 1 - seq(min(gap, notifyReach)); s != h.last+1; s++ {
		if !h.arrived(s) {
			lost++
		}
	}
	n.acked = h.last
	return true, lost
}

// decide returns the next receipt that header h settles, oldest first.
func (n *notifier) decide(h *notifyHeader) (r codec.Receipt, delivered, ok bool) {
	if n.answered == len(n.receipts) || h.last.before(n.receipts[n.answered].Number) {
		return 0, false, false
	}
	oldest := n.receipts[n.answered]
	n.answered++
	return oldest.Receipt, h.arrived(oldest.Number), true
}

// unanswered returns the next receipt without an answer, oldest first, and forgets it.
func (n *notifier) unanswered() (r codec.Receipt, ok bool) {
	if n.answered == len(n.receipts) {
		return 0, false
	}
	n.answered++
	return n.receipts[n.answered-1].Receipt, true
}

// relax frees memory that is not needed now.
func (n *notifier) relax() {
	if waiting := n.receipts[n.answered:]; cap(n.receipts) > 2*len(waiting) {
		n.receipts, n.answered = slices.Clone(waiting), 0
	}
}

// arrived reports whether h says that message s, not newer than h's last, was received. A message beyond its reach
// counts as lost, as in the library.
func (h *notifyHeader) arrived(s seq) bool {
	back := h.last.minus(s)
	return back == 0 || back < notifyReach && h.bits&(1<<(back-1)) != 0
}
