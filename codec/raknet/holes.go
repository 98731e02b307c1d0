package raknet

import (
	"slices"
	"time"
)

// Bounds of asking again for datagrams that are missing (docs/protocols/raknet.md#recovery-and-congestion).
const (
	maxHoles   = 512
	mostAsks   = 8 // of one hole, after the first
	longestAsk = time.Second
)

// hole is a run of the peer's datagram numbers that have not arrived. Numbers stay missing for good where the peer sends
// what they held under others. What was in them is known to have come once no reliable message is missing that was sent
// before a newer one that arrived: the one that is below.
type hole struct {
	first, last Seq24
	below       Seq24 // reliable number
	closed      bool  // below is that of a message behind the hole; until then it is what was expected when the hole appeared
	asked       uint8
	askAt       time.Duration
}

// holes are asked for again while something is missing because of them, since the question may have been lost, or its
// answer, and some peers answer nothing else. Sorted by number.
type holes struct {
	list []hole
	at   time.Duration // the earliest askAt; of meaning while there are holes
}

// expect has the peer's next datagram asked for if it does not come. It is the peer's turn in the handshake, and a peer that
// sends nothing again of its own accord would wait for ever when its answer is lost.
func (r *receiver) expect(now time.Duration) { r.openHole(now, r.datagrams.next, 1) }

// openHole notes the count numbers up to and including last as missing, to be asked for again after a while.
func (r *receiver) openHole(now time.Duration, last Seq24, count int) {
	if len(r.holes.list) == maxHoles {
		r.holes.list = slices.DeleteFunc(r.holes.list, func(o hole) bool { return o.closed && !r.lacks(&o) })
	}
	r.holes.open(last, count, r.reliable.next, now+r.patience)
}

// lacks reports whether a reliable message is missing that a closed hole may have held.
func (r *receiver) lacks(o *hole) bool { return r.reliable.base.Before(o.below) }

func (h *holes) open(last Seq24, count int, expected Seq24, askAt time.Duration) {
	if len(h.list) == maxHoles {
		return
	}
	if len(h.list) == 0 || askAt < h.at {
		h.at = askAt
	}
	i := len(h.list)
	for i > 0 && last.Before(h.list[i-1].first) {
		i--
	}
	h.insert(i, hole{first: last.Add(1 - count), last: last, below: expected, askAt: askAt})
}

func (h *holes) insert(i int, o hole) {
	h.list = append(h.list, hole{})
	copy(h.list[i+1:], h.list[i:])
	h.list[i] = o
}

// close notes what is expected after the datagram that showed the newest hole.
func (h *holes) close(expected Seq24) {
	if n := len(h.list); n > 0 {
		h.list[n-1].close(expected)
	}
}

func (h *hole) close(expected Seq24) {
	if !h.closed && h.below != expected {
		h.below, h.closed = expected, true
	}
}

// fill takes a number that has arrived out of its hole, or reports that it is in none.
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

// split makes two holes of one by a number in its midst. The newer one is forgotten if there is no room.
func (h *holes) split(i int, n Seq24) {
	behind := h.list[i]
	behind.first = n.Add(1)
	h.list[i].last = n.Add(-1)
	if len(h.list) == maxHoles {
		return
	}
	h.insert(i+1, behind)
}

// askAt is when askAgain has something to do.
func (h *holes) askAt() (at time.Duration, ok bool) {
	if len(h.list) == 0 {
		return 0, false
	}
	return h.at, true
}

// askAgain asks for the holes whose time has come, and forgets those of which nothing is wanted any more. Stubborn asks
// even where nothing is known to be missing.
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
