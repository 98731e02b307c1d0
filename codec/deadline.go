package codec

import "time"

// Earliest returns the earlier of two deadlines. Zero means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// MostLate is how late a busy machine may do a connection's work. Work that is later shows that the process stood
// still, or that the session was in no process. The peer was not heard meanwhile, so its silence is no evidence.
const MostLate = 200 * time.Millisecond

// IsLate reports whether work that was due at a time is later than MostLate. Zero means that none was due.
func IsLate(now, due time.Time) bool { return !due.IsZero() && now.Sub(due) > MostLate }
