package stats

import "time"

// turnSample is how many turns of a loop go by for each that is counted.
const turnSample = 16

// Turns measures what a loop's turns take, from the end of the wait to the last datagram sent.
type Turns struct {
	Histogram
	passed uint
}

// End counts a turn.
func (t *Turns) End(took time.Duration) {
	if t.passed++; t.passed%turnSample == 0 {
		t.observe(took)
	}
}
