package rudp

// seq is the 16-bit sequence number of a packet. It wraps; only its methods compare it.
type seq uint16

// minus is how far s is ahead of t, negative when it is behind, on the circle of 2^16 numbers.
func (s seq) minus(t seq) int { return int(int16(s - t)) }
