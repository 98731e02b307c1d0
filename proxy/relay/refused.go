package relay

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
)

// refusals is how many times in a row, over at least refusedTime, the host of an established session's server must
// report a closed port. Then the Relay believes it. A firewall or a network that is set up again refuses for a moment,
// and its players play on.
//
// A server that was started again in less time is silent to players that it does not know. So refusals also count
// once nothing else came for doubtTime.
const (
	refusals    = 3
	refusedTime = time.Second
	doubtTime   = 2500 * time.Millisecond
)

// believes notes that a session's server cannot be reached, and reports whether the server counts as lost. A missing
// route is no sign: it is often back in a moment. Silence decides then, as it does for a client without a proxy. age is
// the time since the Relay's start.
func (s *link) believes(age time.Duration, err error) bool {
	if errors.Is(err, netio.ErrUnreachable) {
		return false
	}
	s.copied = 0
	if s.refused == 0 {
		s.refusedFrom = age
	}
	s.refused = min(s.refused+1, refusals)
	return s.refused == refusals && age-s.refusedFrom >= refusedTime
}

// doubtedUntil returns when a session gives up a server that has refused datagrams and is silent since; zero: never.
func doubtedUntil(r *Relay, s *link) time.Time {
	if s.refused < refusals || !s.upstream.up || !s.upstream.Live() || s.life.isEnding() {
		return time.Time{}
	}
	return r.born.Add(s.refusedFrom + doubtTime)
}

// abandonDoubted gives up a server that has refused datagrams and is silent since.
func abandonDoubted(now time.Time, r *Relay, e *Entry) {
	if at := doubtedUntil(r, &e.Value); !at.IsZero() && !now.Before(at) && e.Value.upstream.Live() {
		r.abandonUpstream(now, e)
	}
}

// refused handles the news that the server of a terminated session cannot be reached. A client that joins is sent to
// another server. If there is none, the connection goes on asking, as a client without a proxy does.
func refused(now time.Time, r *Relay, e *Entry, err error) {
	s := &e.Value
	if !s.upstream.Live() {
		return
	}
	believed, stream := s.believes(now.Sub(r.born), err), s.route.Upstream.Transport.Stream
	switch {
	case s.upstream.up:
		believed = believed || stream
	case s.life.isHeld() || s.life.isEnding() || s.route.mayTry(s.tries):
		believed = true
	default:
		s.route.pool.Failed(s.server, now, r.born.Add(s.askedAt), upstream.Refused)
		if stream {
			postpone(now, r, e)
		}
	}
	if believed {
		r.abandonUpstream(now, e)
	} else if s.refused == refusals {
		r.dirty.mark(e) // doubtedUntil is a deadline now
	}
}

// postpone leaves a server that refuses a joining client's stream. The session asks again in a moment.
func postpone(now time.Time, r *Relay, e *Entry) {
	s := &e.Value
	r.samples.refused(s, codec.TransportError)
	r.samples.lastOfServer(s)
	s.wait(now)
	r.dirty.mark(e)
}

// wait leaves the server, and has the session ask again in a moment.
func (s *link) wait(now time.Time) {
	s.hangUp()
	s.upstream = side{Sender: bridge.Sender{Keeps: s.upstream.Keeps}}
	s.dialBy = now.Add(seekEvery)
}
