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
