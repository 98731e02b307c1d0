package proxy

import (
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// partingTime bounds the time in which sessions with stacks say goodbye. The handshake of a far player, or after a lost
// datagram, takes some seconds, and before its end a player can read nothing.
const partingTime = 5 * time.Second

// DismissStacked ends the sessions that no successor can have, waits a moment until their players know, and returns
// the numbers of those players and of the sessions whose players could not read that.
func (s *Server) DismissStacked() (count, behind int) {
	for until := time.Now().Add(partingTime); ; time.Sleep(20 * time.Millisecond) {
		left := 0
		behind = 0
		for _, l := range s.loops {
			var dismissed, unread, here int
			if l.ask(stats.WorkHandover, func(r *relay.Relay, now time.Time) {
				dismissed, unread, here = r.DismissStacked(now)
			}) {
				count, behind, left = count+dismissed, behind+unread, left+here
			}
		}
		if left == 0 || time.Now().After(until) {
			return count, behind
		}
	}
}

// AllowStacked begins such sessions again, after an upgrade that has failed.
func (s *Server) AllowStacked() {
	for _, l := range s.loops {
		l.ask(stats.WorkHandover, func(r *relay.Relay, _ time.Time) { r.AllowStacked() })
	}
}
