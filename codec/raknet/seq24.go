package raknet

// Seq24 is one of RakNet's 24-bit counters: datagram, reliable, ordering and sequencing numbers
// (docs/protocols/raknet.md#reliability). It wraps; compare only with its methods.
type Seq24 uint32

const (
	seq24Mask = 1<<24 - 1
	seq24Half = 1 << 23
)

// Add returns the number n steps on, or back if n is negative.
func (s Seq24) Add(n int) Seq24 { return Seq24((int(s) + n) & seq24Mask) }

// Sub returns how many steps s is ahead of t: from -2^23 to 2^23-1, negative if it is behind.
func (s Seq24) Sub(t Seq24) int {
	return (int(s)-int(t)+seq24Half)&seq24Mask - seq24Half
}

// Before reports whether s precedes t, for distances below 2^23.
func (s Seq24) Before(t Seq24) bool { return s.Sub(t) < 0 }
