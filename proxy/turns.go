package proxy

import "time"

// turnSample is how many turns of a loop go by for each that is measured: a second look at the clock in every turn would
// cost more than it tells.
const turnSample = 16

// turns measures what a loop's turns take, from the end of the wait to the last datagram sent.
type turns struct {
	Histogram
	passed uint
}

// end counts a turn that began at start.
func (t *turns) end(start time.Time) {
	if t.passed++; t.passed%turnSample == 0 {
		t.observe(time.Since(start))
	}
}
