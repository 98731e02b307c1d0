package raknet

import (
	"slices"
	"time"
)

// Bounds of requests for missing datagrams (docs/protocols/raknet/recovery.md#recovery-and-congestion).
const (
	maxHoles   = 1024
	mostAsks   = 8 // requests for one hole, after the first
	longestAsk = time.Second
)

// hole is a run of the peer's datagram numbers that have not arrived. They stay missing for good if the peer sends
// their messages again under other numbers. All messages of a hole have arrived once no reliable number before
// reliableEnd is missing.
type hole struct {
	_           struct{} `cbor:",toarray"`
	First, Last Seq24
	ReliableEnd Seq24
	Closed      bool // ReliableEnd comes from a datagram behind the hole
	Asked       uint8
	AskAt       time.Duration
}

// holes are requested again while a message of theirs is missing. The request or its answer may have been lost, and
// some peers send again only on request. The list is sorted by number.
type holes struct {
	list []hole        `cbor:"22,keyasint,omitempty"`
	at   time.Duration // the earliest askAt; valid while there are holes
}

// expect requests the peer's next datagram if it does not arrive. In the handshake it is the peer's turn. A peer that
// sends again only on request would wait for ever after a lost answer.
func (r *receiver) expect(now time.Duration) { r.openHole(now, r.datagrams.next, 1) }

// openHole records the count numbers up to and including last as missing. They are requested again after a while.
func (r *receiver) openHole(now time.Duration, last Seq24, count int) {
	if len(r.holes.list) == maxHoles {
		r.holes.list = slices.DeleteFunc(r.holes.list, func(o hole) bool { return o.Closed && !r.lacks(&o) })
	}
	r.holes.open(last, count, r.reliable.next, now+r.Patience)
}

// lacks reports whether a reliable message is missing that a closed hole may have contained.
func (r *receiver) lacks(o *hole) bool { return r.reliable.base.Before(o.ReliableEnd) }

// open adds a hole. The list stays sorted, and no two holes have a number in common. A number can be missing again
// after the window has moved back, or when the same step of the handshake is expected twice.
func (h *holes) open(last Seq24, count int, expected Seq24, askAt time.Duration) {
	o := hole{First: last.Add(1 - count), Last: last, ReliableEnd: expected, AskAt: askAt}
	if !h.makeWay(&o) || len(h.list) == maxHoles {
		return
	}
	if len(h.list) == 0 || askAt < h.at {
		h.at = askAt
	}
	i := len(h.list)
	for i > 0 && last.Before(h.list[i-1].First) {
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
		case old.Last.Before(o.First) && o.Last.Sub(old.First) < seq24Half/2,
			o.Last.Before(old.First) && old.Last.Sub(o.First) < seq24Half/2: // elsewhere
		case old.First.Before(o.First) && o.Last.Before(old.Last):
			has = true
		case old.First.Before(o.First) && !old.Last.Before(o.First):
			old.Last = o.First.Add(-1)
		case o.Last.Before(old.Last) && !o.Last.Before(old.First):
			old.First = o.Last.Add(1)
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
func (h *holes) close(number, expected Seq24) {
	if n := len(h.list); n > 0 && h.list[n-1].Last.Before(number) {
		h.list[n-1].close(expected)
	}
}

func (h *hole) close(expected Seq24) {
	if !h.Closed && h.ReliableEnd != expected {
		h.ReliableEnd, h.Closed = expected, true
	}
}

// fill removes an arrived number from its hole, or reports that it is in none.
func (h *holes) fill(n Seq24) bool {
	for i := len(h.list) - 1; i >= 0; i-- {
		o := &h.list[i]
		switch {
		case n.Before(o.First):
			continue
		case o.Last.Before(n):
			return false
		case o.First == o.Last:
			h.list = append(h.list[:i], h.list[i+1:]...)
		case n == o.First:
			o.First = n.Add(1)
		case n == o.Last:
			o.Last = n.Add(-1)
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
	behind.First = n.Add(1)
	h.list[i].Last = n.Add(-1)
	if len(h.list) == maxHoles {
		return
	}
	h.insert(i+1, behind)
}

// askAgain requests the due holes again, and forgets holes without missing messages. stubborn requests also those,
// since an answer under another number may look like the newest message.
func (r *receiver) askAgain(now, patience time.Duration, stubborn bool) {
	h := &r.holes
	if len(h.list) == 0 || now < h.at {
		return
	}
	kept := h.list[:0]
	h.at = now + longestAsk
	for _, o := range h.list {
		if now >= o.AskAt && (len(r.nacks.ranges) == maxAckRanges || r.nacks.count >= maxMissing) {
			o.AskAt = now + patience // its turn comes when these have left
		} else if now >= o.AskAt {
			o.close(r.reliable.next)
			missing := stubborn || !o.Closed || r.lacks(&o)
			if !missing || o.Asked == mostAsks {
				continue
			}
			if stubborn || o.Closed {
				r.nacks.addUpTo(o.Last, min(o.Last.Sub(o.First)+1, maxMissing))
			}
			o.Asked++
			o.AskAt = now + min(patience<<o.Asked, longestAsk)
		}
		kept, h.at = append(kept, o), min(h.at, o.AskAt)
	}
	h.list = kept
}
