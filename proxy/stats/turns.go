package stats

import "time"

// turnSample is the number of turns for each turn that the histogram counts.
const turnSample = 16

// turnWindow is the time for which the longest turn is shown, at least. At most it is twice as long.
const turnWindow = time.Minute

// Work is a kind of work in a loop's turn.
type Work uint8

// Kinds of work. Those from WorkBans on are commands of other goroutines.
const (
	WorkReceive   Work = iota // datagrams read, judged and delivered
	WorkDue                   // deadlines, and slices of walks over all sessions
	WorkWrite                 // sessions' datagrams made
	WorkSend                  // datagrams given to the kernel
	WorkSample                // the filter for strangers renewed
	WorkBans                  // sessions of banned clients ended
	WorkCapture               // a capture begun or ended
	WorkDrain                 // the end of all sessions begun
	WorkFigures               // totals copied
	WorkHandover              // sockets given to a successor
	WorkKernel                // filters in the kernel renewed
	WorkLimits                // amounts of limits exchanged with the fleet
	WorkList                  // sessions listed or found
	WorkListeners             // listeners opened and closed
	WorkMove                  // sessions moved to other servers
	WorkReload                // settings replaced
	WorkRules                 // rules about sources and messages replaced
	WorkWhy                   // the rules for an address explained
	Works
)

var workNames = [Works]string{
	"receive", "due", "write", "send", "sample", "bans", "capture", "drain", "figures", "handover", "kernel", "limits",
	"list", "listeners", "move", "reload", "rules", "why",
}

// String returns the name, as in metrics.
func (w Work) String() string {
	if w < Works {
		return workNames[w]
	}
	return "unknown"
}

// LongTurn is the longest turn of a loop within the last minute or two.
type LongTurn struct {
	Took time.Duration
	Work Work // the work that took the largest part
}

// Turns measures the duration of a loop's turns, from the end of the wait to the last sent datagram. It also keeps
// the longest turn, with its work.
type Turns struct {
	Histogram
	passed      uint
	parts       [Works]time.Duration // of this turn
	last, older LongTurn             // the longest of this window, and of the one before
	since       time.Time            // when this window began
}

// Part counts a part of the present turn.
func (t *Turns) Part(w Work, took time.Duration) { t.parts[w] += took }

// End counts a turn that has ended at now.
func (t *Turns) End(now time.Time, took time.Duration) {
	if t.passed++; t.passed%turnSample == 0 {
		t.observe(took)
	}
	t.rotate(now)
	if took > t.last.Took {
		t.last = LongTurn{took, t.longestPart()}
	}
	clear(t.parts[:])
}

func (t *Turns) longestPart() (longest Work) {
	for w, took := range t.parts {
		if took > t.parts[longest] {
			longest = Work(w)
		}
	}
	return longest
}

// rotate begins another window when the present one is over.
func (t *Turns) rotate(now time.Time) {
	switch age := now.Sub(t.since); {
	case age >= 2*turnWindow:
		t.last, t.older, t.since = LongTurn{}, LongTurn{}, now
	case age >= turnWindow:
		t.last, t.older, t.since = LongTurn{}, t.last, now
	}
}

// Longest returns the longest turn within the last minute or two.
func (t *Turns) Longest(now time.Time) LongTurn {
	t.rotate(now)
	if t.older.Took > t.last.Took {
		return t.older
	}
	return t.last
}
