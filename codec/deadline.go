package codec

import "time"

// Earliest is the earlier of two deadlines, of which zero means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
