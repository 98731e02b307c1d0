package proxy

import (
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Times of a handover with sessions that no successor can have.
const (
	// openingTime bounds the wait for half-open channels. The handshake of a far player, or after a lost datagram, takes
	// some seconds, and before its end a player can read nothing.
	openingTime = 5 * time.Second
	// partingTime bounds the goodbyes. The players' answers reach the successor, so a stack waits a second for them.
	partingTime = 2 * time.Second
)

// HoldStacked begins no sessions that no successor can have, before AllowStacked, and waits for half-open ones.
func (s *Server) HoldStacked() {
	untilNone(openingTime, func() (opening int) {
		for _, l := range s.loops {
			l.ask(stats.WorkHandover, func(r *relay.Relay, _ time.Time) { opening += r.HoldStacked(true) })
		}
		return opening
	})
}

// untilNone looks again and again until nothing is left, for a time at most.
func untilNone(most time.Duration, look func() (left int)) {
	for until := time.Now().Add(most); look() > 0 && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
	}
}

// AllowStacked begins such sessions again, after an upgrade that has failed.
func (s *Server) AllowStacked() {
	for _, l := range s.loops {
		l.ask(stats.WorkHandover, func(r *relay.Relay, _ time.Time) { r.HoldStacked(false) })
	}
}

// DismissStacked ends the sessions that the successor, which runs now, does not have. It returns the numbers of players
// that are told to join again, and of players that could not read that.
func (f *Frozen) DismissStacked() (count, behind int) {
	for _, l := range f.loops {
		dismissed, unread := l.relay.DismissStacked(l.clock.read())
		count, behind = count+dismissed, behind+unread
		l.poller.Flush()
	}
	untilNone(partingTime, func() (left int) {
		for _, l := range f.loops {
			left += l.relay.PartStacked(l.clock.read())
			l.poller.Flush()
		}
		return left
	})
	return count, behind
}
