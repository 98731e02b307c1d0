package proxy

import "time"

// turnSample is how many turns of a loop go by for each that is counted.
const turnSample = 16

// turns measures what a loop's turns take, from the end of the wait to the last datagram sent.
type turns struct {
	Histogram
	passed uint
}

// end counts a turn.
func (t *turns) end(took time.Duration) {
	if t.passed++; t.passed%turnSample == 0 {
		t.observe(took)
	}
}
