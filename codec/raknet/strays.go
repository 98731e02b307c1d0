package raknet

import "time"

// A stray is a datagram whose number is far from those of its peer so far. Either it is forged, or a forged one has
// moved the window away from the peer's numbers, or an outage of the path has lost many. It is not believed before
// others confirm it. The reliable messages that are due next count at once, since a forger does not know their numbers.
const (
	// strayStep is by how much the number of a datagram that confirms a stray may be higher.
	strayStep = 64
	// strayRun is how many strays in a row move the window. Fewer do once the old numbers are silent for strayPatience.
	strayRun      = 8
	strayShortRun = 2
	strayPatience = 500 * time.Millisecond
	// strayLife is how long a run of strays waits for its next one. Until then, other strays are none of it.
	strayLife = time.Second
	// strayAhead is how far ahead of the oldest missing reliable message a stray's messages may be.
	strayAhead = 64
)

// strays is a run of datagrams with numbers that follow each other, far from the window.
type strays struct {
	next Seq24 // one more than the newest
	run  int
	at   time.Duration // when the newest came
}

// add takes a stray, and reports whether the window has to move to it. heardAt is when a datagram of the window came
// last.
func (s *strays) add(now, heardAt time.Duration, n Seq24) bool {
	follows := n.Sub(s.next)
	switch {
	case s.run > 0 && follows >= 0 && follows < strayStep:
		s.run++
	case s.run > 0 && now-s.at < strayLife:
		return false
	default:
		s.run = 1
	}
	s.next, s.at = n.Add(1), now
	if s.run >= strayRun || s.run >= strayShortRun && now-heardAt >= strayPatience {
		s.run = 0
		return true
	}
	return false
}
