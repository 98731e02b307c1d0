package shield

import "time"

// How many datagrams of strangers a Gate lets pass: gateRoom at once, and as many again once the loop has read all that there
// was, but not within gateEvery. That is at most 51,200 a second, about as many as a loop can read beside its players, and
// what waits takes at most half of a buffer of 2 MiB. A loop that has not told for gatePatience is asked by a few.
const (
	gateRoom     = 512
	gateEvery    = 10 * time.Millisecond
	gatePatience = 100 * time.Millisecond
)

// gateOpen is the room of a Gate whose loop has read nothing yet: somebody else may be reading until then, a predecessor,
// whose clients we do not know.
const gateOpen = 1 << 40
