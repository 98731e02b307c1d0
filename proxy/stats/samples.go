package stats

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/ratelimit"
)

// SampleEvery is the interval between two samples of an active session's figures.
const SampleEvery = 5 * time.Second

// Samples are figures of one side of all sessions. A Relay samples each session every few seconds and at its end. So
// a loop never walks all its sessions.
type Samples struct {
	Leg
	Queued int   // bytes of messages to the side that wait to be sent or acknowledged
	Queues Sizes // of each sample: bytes that wait
}

// Sampled is one session's share of Samples, for one side. It holds the low bits of the counts. The next sample comes
// before these bits can wrap.
type Sampled struct {
	Queued uint32 `cbor:"1,keyasint,omitempty"`
	Resent uint32 `cbor:"2,keyasint,omitempty"`
	Lost   uint32 `cbor:"3,keyasint,omitempty"`
}

// Observe adds the change of a connection's statistics since the last sample, also to the leg of its server. A nil
// leg means that the session has no server.
func (s *Samples) Observe(last *Sampled, stats codec.Stats, of *Leg) {
	if stats.RTT > 0 {
		s.RTT.observe(stats.RTT)
		if of != nil {
			of.RTT.observe(stats.RTT)
		}
	}
	s.Queues.observe(stats.Queued)
	s.take(last, of, Sampled{uint32(stats.Queued), uint32(stats.Resent), uint32(stats.Lost)})
}

// Leave adds the last statistics of an ended connection, as Observe does.
func (s *Samples) Leave(last *Sampled, stats codec.Stats, of *Leg) {
	s.take(last, of, Sampled{0, uint32(stats.Resent), uint32(stats.Lost)})
}

func (s *Samples) take(last *Sampled, of *Leg, now Sampled) {
	s.Queued += int(now.Queued) - int(last.Queued)
	resent, lost := uint64(now.Resent-last.Resent), uint64(now.Lost-last.Lost)
	s.Resent += resent
	s.Lost += lost
	if of != nil {
		of.Resent += resent
		of.Lost += lost
	}
	*last = now
}

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

// Recent has 256 shelves of 8 drops, about 180 KiB for each Relay. An address has one shelf, which it shares with
// some others by chance. A flood from one address evicts that address's own drops and almost no other.
const (
	shelves   = 256
	shelfSize = 8
)

// RecentDrop is one dropped datagram or message, or several equal ones in a row.
type RecentDrop struct {
	At       time.Time // time of the last one
	Reason   Drop
	Listener string
	From     netip.AddrPort
	Bytes    int   // size of the last one
	Cause    error // may be nil; names the rule or limit
	Times    uint64
}

// Recent remembers the last drops by address. It allocates nothing.
type Recent struct {
	seed    uint64
	shelves [shelves]shelf
}

// NewRecent makes a Recent. A sender without the seed cannot choose the shelf of its address.
func NewRecent(seed uint64) *Recent { return &Recent{seed: seed} }

// shelf holds the last drops of the addresses that share it.
type shelf struct {
	drops [shelfSize]RecentDrop
	next  int
}

// Add remembers a drop. It does not allocate.
func (r *Recent) Add(now time.Time, why Drop, listener string, from netip.AddrPort, size int, err error) {
	switch why {
	case DropSourceRule, DropMessageRule, DropRate, DropHandshakes, DropMaxMessage: // names that are made once
	default:
		err = nil // the error may be unique and hold memory
	}
	s := &r.shelves[r.place(from.Addr())]
	last := &s.drops[(s.next+shelfSize-1)%shelfSize]
	if last.Times == 0 || last.From != from || last.Reason != why || last.Listener != listener || last.Cause != err {
		last = &s.drops[s.next]
		*last = RecentDrop{Reason: why, Listener: listener, From: from, Cause: err}
		s.next = (s.next + 1) % shelfSize
	}
	last.At, last.Bytes = now, size
	last.Times++
}

// Of appends the remembered drops of an address, oldest first.
func (r *Recent) Of(a netip.Addr, to []RecentDrop) []RecentDrop {
	s := &r.shelves[r.place(a)]
	for i := range shelfSize {
		if d := &s.drops[(s.next+i)%shelfSize]; d.Times > 0 && d.From.Addr().Unmap() == a.Unmap() {
			to = append(to, *d)
		}
	}
	return to
}

// All returns all remembered drops, at most shelves times shelfSize.
func (r *Recent) All() []RecentDrop {
	var all []RecentDrop
	for i := range r.shelves {
		for j := range r.shelves[i].drops {
			if d := &r.shelves[i].drops[j]; d.Times > 0 {
				all = append(all, *d)
			}
		}
	}
	return all
}

func (r *Recent) place(a netip.Addr) int { return int(ratelimit.Hash(a, 0, r.seed) % shelves) }
