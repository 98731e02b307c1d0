package proxy

import (
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// partingTime bounds the time in which sessions with stacks say goodbye.
const partingTime = 1500 * time.Millisecond

// DismissStacked ends the sessions that no successor can have, waits a moment until their players know, and returns
// their number.
func (s *Server) DismissStacked() (count int) {
	for until := time.Now().Add(partingTime); ; time.Sleep(20 * time.Millisecond) {
		left := 0
		for _, l := range s.loops {
			var dismissed, here int
			if l.ask(stats.WorkHandover, func(r *relay.Relay, now time.Time) { dismissed, here = r.DismissStacked(now) }) {
				count, left = count+dismissed, left+here
			}
		}
		if left == 0 || time.Now().After(until) {
			return count
		}
	}
}
