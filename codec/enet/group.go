package enet

import "tidegate/codec"

// groupReach is the number of unsequenced messages, back from the newest, that a group window remembers.
const groupReach = 1024

// groups recognizes unsequenced messages that arrive again. A number far from all others counts only when another one
// follows it, and then has a window of its own beside the last one. So no forged message shuts out the honest ones.
type groups struct {
	window
	other    window // the one before a jump
	hasOther bool
	far      uint16 // a number far from both windows
	hasFar   bool
}

// window remembers the numbers up to the newest one.
type window struct {
	newest uint16
	seen   [groupReach / 64]uint64 // by number modulo groupReach
}

func (w *window) bit(n uint16) (word *uint64, mask uint64) {
	n %= groupReach
	return &w.seen[n/64], 1 << (n % 64)
}

func (w *window) reaches(n uint16) bool {
	gap := int(int16(n - w.newest))
	return gap > -groupReach && gap <= groupReach
}

// take records a number within reach. It returns an error for a repeated one.
func (w *window) take(n uint16) error {
	if int16(n-w.newest) > 0 {
		for w.newest != n {
			w.newest++
			word, mask := w.bit(w.newest)
			*word &^= mask
		}
	}
	word, mask := w.bit(n)
	if *word&mask != 0 {
		return codec.ErrDuplicate
	}
	*word |= mask
	return nil
}

// take records a number. It returns an error for a repeated number, or one that nothing confirms yet.
func (g *groups) take(n uint16) error {
	switch {
	case g.reaches(n):
	case g.hasOther && g.other.reaches(n):
		g.window, g.other = g.other, g.window
	case g.hasFar && int16(n-g.far) > 0 && n-g.far <= groupReach:
		g.other, g.hasOther, g.hasFar = g.window, true, false
		g.window = window{newest: n}
	default:
		g.far, g.hasFar = n, true
		return codec.ErrWindow
	}
	return g.window.take(n)
}
