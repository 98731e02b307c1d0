package relay

// A walk over all sessions may cost a loop milliseconds for each ten thousand of them. So a turn visits a slice of
// the sessions, and the next turns go on. A visit returns its cost.
const (
	turnSlice = 1024 // cost of the visits in a turn
	looked    = 1    // the visit only looked at the session
	copied    = 2    // the visit copied the session's state, or changed a map
	asked     = 8    // the visit asked the kernel about the session, and copied its state
	acted     = 8    // the visit changed the session, which has more to send now
	enough    = 0    // the walk is over
)

// costOfCopy returns the cost of a visit that copies the session's state after an update.
func (s *link) costOfCopy() int {
	if s.shortcut != nil {
		return asked
	}
	return copied
}
