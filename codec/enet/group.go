package enet

import "tidegate/codec"

// groupReach is the number of unsequenced messages, back from the newest, that a group window remembers.
const groupReach = 1024

// groups recognizes unsequenced messages that arrive again. A number far ahead counts only when another one follows
// it. So one forged message does not shut out the honest ones behind it.
type groups struct {
	newest uint16
	seen   [groupReach / 64]uint64 // by number modulo groupReach
	far    uint16                  // a number that was too far ahead
	hasFar bool
}

func (g *groups) bit(n uint16) (word *uint64, mask uint64) {
	n %= groupReach
	return &g.seen[n/64], 1 << (n % 64)
}

// take records a number. It returns an error for a repeated number, or one too old to tell.
func (g *groups) take(n uint16) error {
	switch gap := int(int16(n - g.newest)); {
	case gap > groupReach:
		if !g.hasFar || int(int16(n-g.far)) <= 0 || int(int16(n-g.far)) > groupReach {
			g.far, g.hasFar = n, true
			return codec.ErrWindow
		}
		*g = groups{newest: n}
	case gap > 0:
		for g.newest != n {
			g.newest++
			word, mask := g.bit(g.newest)
			*word &^= mask
		}
	case gap <= -groupReach:
		return codec.ErrDuplicate
	}
	word, mask := g.bit(n)
	if *word&mask != 0 {
		return codec.ErrDuplicate
	}
	*word |= mask
	return nil
}
