package relay

import "time"

// Stood notes that the process stood still for d. Servers had no chance to answer in that time, and clients no chance
// to finish a handshake. So the time does not count against them.
func (r *Relay) Stood(d time.Duration) {
	r.journal.log.Warn().Int64("for_ms", d.Milliseconds()).Msg("the process stood still")
	r.stood += d
	for _, c := range r.checkers {
		c.stood(d)
	}
}

// spare moves the deadlines of a session by the time that the process stood still since the last call. It is called
// before a deadline is judged or set, with the whole time since the Relay was made. So a pause costs no walk over all
// sessions.
func (s *session) spare(stood time.Duration) {
	d := stood - s.spared
	if d == 0 {
		return
	}
	s.spared = stood
	if s.isRelayed() {
		if s.life == opening {
			s.opened = s.opened.Add(d)
		}
		return
	}
	if !s.dialBy.IsZero() {
		s.dialBy = s.dialBy.Add(d)
	}
	if s.life.isJoining() {
		s.expires = s.expires.Add(d)
	}
}
