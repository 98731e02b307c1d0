package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// Ended describes a session that has ended in an abnormal way.
type Ended struct {
	At       time.Time
	Session  session.ID
	Client   netip.AddrPort
	Listener string
	By       stats.Party
	Reason   codec.Reason
}

// isAbnormal reports whether the end of a session is worth a look: all ends but goodbyes, and the end of the proxy.
// A relayed session has no goodbyes, so its silence is normal.
func isAbnormal(s *link, blame stats.Party, why codec.Reason) bool {
	switch {
	case !s.life.hasJoined(), why == codec.Closed, why == codec.ServerStopped && blame == stats.ByProxy:
		return false
	}
	return !s.isRelayed() || why != codec.TimedOut
}

// abnormalEnds is told of sessions that end in an abnormal way. It may be nil.
type abnormalEnds func(Ended)

// tell reports the end of a session if it is abnormal.
func (report abnormalEnds) tell(now time.Time, e *Entry, blame stats.Party, why codec.Reason) {
	s := &e.Value
	if report == nil || !isAbnormal(s, blame, why) {
		return
	}
	report(Ended{
		At: now, Session: s.serial, Client: e.Key.Client, Listener: s.listener.name, By: blame, Reason: why,
	})
}
