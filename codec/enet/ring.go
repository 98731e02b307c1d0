package enet

// Sizes of a ring of early messages.
const (
	leastEarly = 8
	slotSize   = 40 // bytes
)

// ringCost returns the memory in bytes of a ring that counts as held. A channel keeps its smallest ring.
func ringCost(size int) int {
	if size <= leastEarly {
		return 0
	}
	return size * slotSize
}

// slot returns the place of an early number, which is at most maxAhead beyond the last delivered one. It returns nil
// if no more memory may be held.
func (in *inbox) slot(c *inChannel, seq uint16) *earlyMessage {
	need := int(seq - c.reliable)
	if need > len(c.early) {
		size := max(leastEarly, len(c.early))
		for size < need {
			size *= 2
		}
		more := ringCost(size) - ringCost(len(c.early))
		if !in.fits(more) {
			return nil
		}
		in.held += more
		grown := make([]earlyMessage, size)
		for i := 1; i <= len(c.early); i++ {
			n := c.reliable + uint16(i)
			grown[int(n)&(size-1)] = c.early[int(n)&(len(c.early)-1)]
		}
		c.early = grown
	}
	return &c.early[int(seq)&(len(c.early)-1)]
}

// shrink frees a large ring if no message in it is early.
func (in *inbox) shrink(c *inChannel) {
	if c.earlyCount == 0 && len(c.early) > leastEarly {
		in.held -= ringCost(len(c.early))
		c.early = nil
	}
}
