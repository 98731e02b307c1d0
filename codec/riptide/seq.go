package riptide

// seq is a 16-bit sequence number of reliable or notify messages. It wraps; only its methods compare it.
type seq uint16

// minus is how far s is ahead of t, negative when it is behind, on the circle of 2^16 numbers.
func (s seq) minus(t seq) int { return int(int16(s - t)) }

// before reports whether s precedes t.
func (s seq) before(t seq) bool { return s.minus(t) < 0 }
