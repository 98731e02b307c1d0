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
	StrayNext Seq24         `cbor:"3,keyasint,omitempty"` // one more than the newest
	StrayRun  int           `cbor:"4,keyasint,omitempty"`
	StrayAt   time.Duration `cbor:"5,keyasint,omitempty"` // when the newest came
}

// add takes a stray, and reports whether the window has to move to it. heardAt is when a datagram of the window came
// last.
func (s *strays) add(now, heardAt time.Duration, n Seq24) bool {
	follows := n.Sub(s.StrayNext)
	switch {
	case s.StrayRun > 0 && follows >= 0 && follows < strayStep:
		s.StrayRun++
	case s.StrayRun > 0 && now-s.StrayAt < strayLife:
		return false
	default:
		s.StrayRun = 1
	}
	s.StrayNext, s.StrayAt = n.Add(1), now
	if s.StrayRun >= strayRun || s.StrayRun >= strayShortRun && now-heardAt >= strayPatience {
		s.StrayRun = 0
		return true
	}
	return false
}
