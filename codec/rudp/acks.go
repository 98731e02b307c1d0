package rudp

// ackReach is how many packets before the last an acknowledgement tells of.
const ackReach = 32

// acks is what a side has received of the other: on the wire as it is in memory. docs/protocols/rudp.md#acks
type acks struct {
	last seq    // newest received
	bits uint32 // the most significant bit is last-1, the least significant last-32
}

// add records s, which is newer than the last.
func (a *acks) add(s seq) {
	if gap := s.minus(a.last); gap <= ackReach {
		a.bits = a.bits>>gap | 1<<(ackReach-gap)
	} else {
		a.bits = 0
	}
	a.last = s
}

// has reports whether s, not newer than the last, was received.
func (a *acks) has(s seq) bool {
	back := a.last.minus(s)
	return back == 0 || back <= ackReach && a.bits&(1<<(ackReach-back)) != 0
}
