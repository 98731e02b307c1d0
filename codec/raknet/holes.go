package raknet

import (
	"slices"
	"time"
)

// Bounds of requests for missing datagrams (docs/protocols/raknet/recovery.md#recovery-and-congestion).
const (
	maxHoles   = 512
	mostAsks   = 8 // requests for one hole, after the first
	longestAsk = time.Second
)

// hole is a run of the peer's datagram numbers that have not arrived. They stay missing for good if the peer sends
// their messages again under other numbers. All messages of a hole have arrived once no reliable number before
// reliableEnd is missing.
type hole struct {
	first, last Seq24
	reliableEnd Seq24
	closed      bool // reliableEnd comes from a datagram behind the hole
	asked       uint8
	askAt       time.Duration
}

// holes are requested again while a message of theirs is missing. The request or its answer may have been lost, and
// some peers send again only on request. The list is sorted by number.
type holes struct {
	list []hole
	at   time.Duration // the earliest askAt; valid while there are holes
}

// expect requests the peer's next datagram if it does not arrive. In the handshake it is the peer's turn. A peer that
// sends again only on request would wait for ever after a lost answer.
func (r *receiver) expect(now time.Duration) { r.openHole(now, r.datagrams.next, 1) }

// openHole records the count numbers up to and including last as missing. They are requested again after a while.
func (r *receiver) openHole(now time.Duration, last Seq24, count int) {
	if len(r.holes.list) == maxHoles {
		r.holes.list = slices.DeleteFunc(r.holes.list, func(o hole) bool { return o.closed && !r.lacks(&o) })
	}
	r.holes.open(last, count, r.reliable.next, now+r.patience)
}

// lacks reports whether a reliable message is missing that a closed hole may have contained.
func (r *receiver) lacks(o *hole) bool { return r.reliable.base.Before(o.reliableEnd) }

// open adds a hole. The list stays sorted, and no two holes have a number in common. A number can be missing again
// after the window has moved back, or when the same step of the handshake is expected twice.
func (h *holes) open(last Seq24, count int, expected Seq24, askAt time.Duration) {
	o := hole{first: last.Add(1 - count), last: last, reliableEnd: expected, askAt: askAt}
	if !h.makeWay(&o) || len(h.list) == maxHoles {
		return
	}
	if len(h.list) == 0 || askAt < h.at {
		h.at = askAt
	}
	i := len(h.list)
	for i > 0 && last.Before(h.list[i-1].first) {
		i--
	}
	h.insert(i, o)
}

// makeWay removes the numbers of a new hole from the list, and holes that are too far away to be compared. It reports
// false if a larger hole has the numbers already.
func (h *holes) makeWay(o *hole) bool {
	kept := h.list[:0]
	has := false
	for _, old := range h.list {
		switch {
		case old.last.Before(o.first) && o.last.Sub(old.first) < seq24Half/2,
			o.last.Before(old.first) && old.last.Sub(o.first) < seq24Half/2: // elsewhere
		case old.first.Before(o.first) && o.last.Before(old.last):
			has = true
		case old.first.Before(o.first) && !old.last.Before(o.first):
			old.last = o.first.Add(-1)
		case o.last.Before(old.last) && !o.last.Before(old.first):
			old.first = o.last.Add(1)
		default:
			continue
		}
		kept = append(kept, old)
	}
	h.list = kept
	return !has
}

func (h *holes) insert(i int, o hole) {
	h.list = append(h.list, hole{})
	copy(h.list[i+1:], h.list[i:])
	h.list[i] = o
}

// close records the number expected after the datagram that showed the newest hole.
func (h *holes) close(expected Seq24) {
	if n := len(h.list); n > 0 {
		h.list[n-1].close(expected)
	}
}

func (h *hole) close(expected Seq24) {
	if !h.closed && h.reliableEnd != expected {
		h.reliableEnd, h.closed = expected, true
	}
}

// fill removes an arrived number from its hole, or reports that it is in none.
func (h *holes) fill(n Seq24) bool {
	for i := len(h.list) - 1; i >= 0; i-- {
		o := &h.list[i]
		switch {
		case n.Before(o.first):
			continue
		case o.last.Before(n):
			return false
		case o.first == o.last:
			h.list = append(h.list[:i], h.list[i+1:]...)
		case n == o.first:
			o.first = n.Add(1)
		case n == o.last:
			o.last = n.Add(-1)
		default:
			h.split(i, n)
		}
		return true
	}
	return false
}

// split makes two holes of one at a number in its middle. The newer one is forgotten if there is no room.
func (h *holes) split(i int, n Seq24) {
	behind := h.list[i]
	behind.first = n.Add(1)
	h.list[i].last = n.Add(-1)
	if len(h.list) == maxHoles {
		return
	}
	h.insert(i+1, behind)
}

// askAt returns when askAgain has work.
func (h *holes) askAt() (at time.Duration, ok bool) {
	if len(h.list) == 0 {
		return 0, false
	}
	return h.at, true
}

// askAgain requests the due holes again, and forgets holes without missing messages. stubborn requests even without a
// known missing message.
func (r *receiver) askAgain(now, patience time.Duration, stubborn bool) {
	h := &r.holes
	if len(h.list) == 0 || now < h.at {
		return
	}
	kept := h.list[:0]
	h.at = now + longestAsk
	for _, o := range h.list {
		if now >= o.askAt {
			o.close(r.reliable.next)
			missing := stubborn || !o.closed || r.lacks(&o)
			if !missing || o.asked == mostAsks {
				continue
			}
			if stubborn || o.closed {
				r.nacks.addUpTo(o.last, min(o.last.Sub(o.first)+1, maxMissing))
			}
			o.asked++
			o.askAt = now + min(patience<<o.asked, longestAsk)
		}
		kept, h.at = append(kept, o), min(h.at, o.askAt)
	}
	h.list = kept
}
