package raknet

// datagramHistory is how many of the newest datagram numbers are remembered to tell duplicates. maxJump is by how much
// a number may run ahead of the newest and count at once. A longer jump, as after an outage of the path, has to be
// confirmed. Only the last maxMissing of a hole are asked for, as stock RakNet does
// (docs/protocols/raknet/recovery.md#recovery-and-congestion).
const (
	datagramHistory = 1024
	maxJump         = 1024
	maxMissing      = 1000
)

// verdict is the decision on a number or a message.
type verdict uint8

const (
	fresh   verdict = iota
	stale           // seen already, or overtaken
	refused         // outside the window, or no room for it now
	early           // in the window or channel, but not next
)

// datagramWindow knows which of the peer's datagrams arrived.
type datagramWindow struct {
	next Seq24                        // one more than the newest
	seen [datagramHistory / 64]uint64 // bit n mod datagramHistory: n arrived
}

// judge says whether a datagram is fresh, stale, or refused: a stray, which is too far ahead, or too old to tell.
func (w *datagramWindow) judge(n Seq24) verdict {
	switch ahead := n.Sub(w.next); {
	case ahead >= maxJump, ahead < -datagramHistory:
		return refused
	case ahead >= 0:
		return fresh
	case w.seen[n/64%(datagramHistory/64)]&(1<<(n%64)) != 0:
		return stale
	}
	return fresh
}

// add records a fresh datagram. It returns the newly missing numbers before it: count numbers up to and including
// last.
func (w *datagramWindow) add(n Seq24) (last Seq24, count int) {
	ahead := n.Sub(w.next)
	for i := 0; i <= ahead && i < datagramHistory; i++ {
		w.clear(n.Add(-i))
	}
	w.seen[n/64%(datagramHistory/64)] |= 1 << (n % 64)
	if ahead < 0 {
		return 0, 0
	}
	w.next = n.Add(1)
	return n.Add(-1), min(ahead, maxMissing)
}

// forget removes a datagram that had no effect, so that its repetition is fresh again.
func (w *datagramWindow) forget(n Seq24) { w.clear(n) }

func (w *datagramWindow) clear(n Seq24) {
	w.seen[n/64%(datagramHistory/64)] &^= 1 << (n % 64)
}

// move takes a stray for the newest datagram. What was known of the numbers around it is forgotten.
func (w *datagramWindow) move(n Seq24) {
	w.seen = [len(w.seen)]uint64{}
	w.next = n.Add(1)
	w.seen[n/64%(datagramHistory/64)] |= 1 << (n % 64)
}
