package stats

import "time"

// turnSample is the number of turns for each turn that is counted.
const turnSample = 16

// Turns measures the duration of a loop's turns, from the end of the wait to the last sent datagram.
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
