package riptide

import "time"

// Limits of a doorman.
const (
	leastGap    = 2           // how far ahead of the newest a number counts at any time
	mostGap     = 8           // the same, while messages may have been lost
	mostSilence = time.Second // after which no messages are lost: the peer has sent none
	leastPace   = 5 * time.Millisecond
	mostPace    = 200 * time.Millisecond
	strayRun    = 4 // numbers that lead to one that counts, with itself
	strayTime   = 80 * time.Millisecond
	maxStrays   = 4
	strayRate   = time.Second            // one stray number in such a time is no sign of a forger
	fewStrays   = 3 * strayRate          // nor are so many at once
	mostDoubt   = 8 * strayRate          // for how long at most a forger is remembered
	reportLag   = 250 * time.Millisecond // how much older than 1.5 round trips a report may be
	reportStep  = 3                      // by how much a report may exceed the last but one
)

// doorman tells a peer's notify messages from those of a forger, who has to guess two numbers of 16 bits.
//
// The message's own number follows the newest. It may be as far ahead as the time since then explains. Another one is
// a stray. It counts when a run of strays, over strayTime, has led there: after an outage, or if the newest is forged.
//
// While strays are many, there is a forger. Then the number that the message reports has to fit as well: it continues
// the earlier reports, or it is as new as the path explains.
type doorman struct {
	said   [2]seq // what the last two messages that counted have reported
	sentBy [2]seq // numbers that we had sent by two moments, older first; the path explains no older report
	sentAt time.Time
	heard  time.Time        // when the last message counted
	pace   time.Duration    // smoothed time between two of the peer's numbers; zero: unknown
	doubt  time.Time        // when all strays are forgotten
	strays [maxStrays]stray // the latest last
}

// stray is the end of a run of numbers that do not count yet.
type stray struct {
	seq   seq
	run   uint8 // their number; zero: none
	since time.Time
}

func newDoorman(acked seq) *doorman {
	return &doorman{said: [2]seq{acked, acked}, sentBy: [2]seq{acked, acked}}
}

// sent notes that we send message s.
func (d *doorman) sent(now time.Time, s seq, rtt time.Duration) {
	if now.Sub(d.sentAt) >= reportLag+rtt*3/2 {
		d.sentBy, d.sentAt = [2]seq{d.sentBy[1], s}, now
	}
}

// admits reports whether a message with header h counts. It is gap ahead of the newest; next is our next number.
func (d *doorman) admits(now time.Time, h *notifyHeader, gap int, next seq) bool {
	isForged := d.doubt.Sub(now) > fewStrays
	isStray := gap <= 0 || gap > d.mostGap(now) || isForged && gap > leastGap
	if isStray {
		d.doubt = now.Add(min(max(d.doubt.Sub(now), 0)+strayRate, mostDoubt))
	}
	if isForged && !d.fits(h, next) || isStray && !d.isRun(now, h.seq) {
		return false
	}
	if gap > 0 && !d.heard.IsZero() {
		pace := min(max(now.Sub(d.heard)/time.Duration(gap), leastPace), mostPace)
		if d.pace == 0 {
			d.pace = pace
		}
		d.pace += (pace - d.pace) / 4
	}
	d.heard, d.said, d.strays = now, [2]seq{d.said[1], h.last}, [maxStrays]stray{}
	return true
}

// fits reports whether h reports a number that an honest peer may report. A real peer that a forger has misled reports
// numbers that we have not sent.
func (d *doorman) fits(h *notifyHeader, next seq) bool {
	least := d.said[0]
	if d.said[1].before(least) {
		least = d.said[1]
	}
	step := h.last.minus(least)
	return step >= 0 && (step <= reportStep || !h.last.before(d.sentBy[0]) && h.last.before(next))
}

// mostGap returns how far ahead of the newest a number counts.
func (d *doorman) mostGap(now time.Time) int {
	silent := now.Sub(d.heard)
	if d.pace == 0 || silent > mostSilence {
		return leastGap
	}
	return min(leastGap+int(2*silent/d.pace), mostGap)
}

// isRun reports whether others have led to number s. If not, it notes s.
func (d *doorman) isRun(now time.Time, s seq) bool {
	w, at := stray{since: now}, 0
	for i, o := range d.strays {
		if step := s.minus(o.seq); o.run > 0 && step > 0 && step <= leastGap {
			w, at = o, i
			break
		}
	}
	w.seq, w.run = s, min(w.run+1, strayRun)
	copy(d.strays[at:], d.strays[at+1:])
	d.strays[maxStrays-1] = w
	return w.run == strayRun && now.Sub(w.since) >= strayTime
}
