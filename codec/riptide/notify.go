package riptide

import (
	"slices"

	"tidegate/codec"
)

// maxNotifyReceipts bounds the notify receipts that wait for word from the peer. A peer which never sends notify
// messages of its own never gives word; the oldest receipt then counts as lost.
const maxNotifyReceipts = 1024

// notifyReach is how many messages, back from its last, a notify header tells of.
const notifyReach = 9

// notifyMemory is how many messages back from the newest we remember, until headers have told of them: four seconds of
// 60 a second. What came before those counts as lost.
const notifyMemory = 256

// notifier numbers notify messages, drops late ones and learns which of ours arrived.
// docs/protocols/riptide.md#notify
type notifier struct {
	next     seq                       // of the next message we send
	acked    seq                       // newest of ours that the peer has told of
	last     seq                       // newest received
	told     seq                       // the last that a header of ours has told of
	arrivals [notifyMemory / 64]uint64 // bit s mod notifyMemory: s was received, of the newest notifyMemory
	receipts []notifyReceipt
	answered int // receipts before this index have been answered
	loss     lossQuality
}

type notifyReceipt struct {
	seq     seq
	receipt codec.Receipt
}

// newNotifier begins with number s in both directions. As in the library, the number before it counts as received.
func newNotifier(s seq) notifier {
	n := notifier{next: s, acked: s - 1, last: s - 1, told: s - 1}
	n.note(s-1, true)
	return n
}

// header is the header of the next message we send; number counts it as sent.
func (n *notifier) header() notifyHeader {
	h := notifyHeader{last: n.tellable(), seq: n.next}
	for back := seq(1); back < notifyReach; back++ {
		if n.arrived(h.last - back) {
			h.bits |= 1 << (back - 1)
		}
	}
	return h
}

func (n *notifier) number() {
	n.told = n.tellable()
	n.next++
}

// tellable is the last that the next header tells of. Many messages may have come since the one before: to name the
// newest would declare lost what its bits do not reach, so it is the newest whose bits reach the first untold one.
func (n *notifier) tellable() seq {
	if n.told == n.last {
		return n.last
	}
	first := n.told + 1
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

// arrived reports whether message s was received, which is one of the newest notifyMemory.
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

// ask keeps the receipt of the message just numbered. It returns the receipt that had to make room, or zero.
func (n *notifier) ask(s seq, r codec.Receipt) (lost codec.Receipt) {
	if n.answered == len(n.receipts) {
		n.receipts, n.answered = n.receipts[:0], 0
	}
	if len(n.receipts)-n.answered == maxNotifyReceipts {
		lost = n.receipts[n.answered].receipt
		n.answered++
	}
	if n.answered > maxNotifyReceipts {
		n.receipts = append(n.receipts[:0], n.receipts[n.answered:]...)
		n.answered = 0
	}
	n.receipts = append(n.receipts, notifyReceipt{s, r})
	return lost
}

// receive records the peer's message s and reports whether it is newer than all before it.
func (n *notifier) receive(s seq) bool {
	gap := s.minus(n.last)
	if gap <= 0 {
		return false
	}
	for i := range min(gap, notifyMemory) {
		n.note(s-seq(i), i == 0)
	}
	const most = notifyMemory - notifyReach // leaves room for the bits of a header behind told
	if n.last.minus(n.told)+gap > most {
		n.told = s - most
	}
	n.last = s
	return true
}

// acknowledged takes what the peer says it received of ours. It reports whether that was news, how many messages are
// known to be lost by it, and whether the connection is too poor: messages that h does not reach are no evidence, or
// a peer that answers seldom would seem to be far away. The receipts it decides come from decide.
func (n *notifier) acknowledged(h *notifyHeader) (news bool, lost int, poor bool) {
	gap := h.last.minus(n.acked)
	if gap <= 0 || !h.last.before(n.next) {
		return false, 0, false
	}
	for s := h.last + 1 - seq(min(gap, notifyReach)); s != h.last+1; s++ {
		arrived := h.arrived(s)
		if !arrived {
			lost++
		}
		if n.loss.result(arrived) {
			poor = true
		}
	}
	n.acked = h.last
	return true, lost, poor
}

// decide returns the next receipt that header h decides, oldest first.
func (n *notifier) decide(h *notifyHeader) (r codec.Receipt, delivered, ok bool) {
	if n.answered == len(n.receipts) || h.last.before(n.receipts[n.answered].seq) {
		return 0, false, false
	}
	oldest := n.receipts[n.answered]
	n.answered++
	return oldest.receipt, h.arrived(oldest.seq), true
}

// give returns the next receipt without an answer, oldest first, and forgets it.
func (n *notifier) give() (r codec.Receipt, ok bool) {
	if n.answered == len(n.receipts) {
		return 0, false
	}
	n.answered++
	return n.receipts[n.answered-1].receipt, true
}

// relax gives up memory that is not needed at present.
func (n *notifier) relax() {
	if waiting := n.receipts[n.answered:]; cap(n.receipts) > 2*len(waiting) {
		n.receipts, n.answered = slices.Clone(waiting), 0
	}
}

// arrived reports whether h says that message s, not newer than its last, was received. What it does not reach counts
// as lost, as in the library.
func (h *notifyHeader) arrived(s seq) bool {
	back := h.last.minus(s)
	return back == 0 || back < notifyReach && h.bits&(1<<(back-1)) != 0
}
