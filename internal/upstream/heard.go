package upstream

import "time"

// heardEvery is the precision of the time at which a Server was last heard. More precision costs the loops that share it
// more.
const heardEvery = 10 * time.Millisecond

// origin is the zero of Server.heard. It counts by the monotonic clock, which setting the system's clock does not move.
var origin = time.Now()

// Heard notes that a session or a check has received something from the server. It is safe for concurrent use, and cheap
// enough to be called for each datagram.
func (s *Server) Heard(now time.Time) {
	at := int64(now.Sub(origin))
	if last := s.heard.Load(); last == 0 || at-last >= int64(heardEvery) {
		s.heard.Store(at)
	}
}

// heardAfter reports whether the server was heard after a time.
func (s *Server) heardAfter(t time.Time) bool {
	last := s.heard.Load()
	return last != 0 && last > int64(t.Sub(origin))
}
