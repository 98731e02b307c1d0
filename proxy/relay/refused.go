package relay

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
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
func (p *session) believes(age time.Duration, err error) bool {
	if errors.Is(err, netio.ErrUnreachable) {
		return false
	}
	p.copied = 0
	if p.refused == 0 {
		p.refusedFrom = age
	}
	p.refused = min(p.refused+1, refusals)
	return p.refused == refusals && age-p.refusedFrom >= refusedTime
}

// doubtedUntil returns when a session gives up a server that has refused datagrams and is silent since; zero: never.
func doubtedUntil(r *Relay, p *session) time.Time {
	if p.refused < refusals || !p.upstream.up || !p.upstream.Live() || p.isEnding() {
		return time.Time{}
	}
	return r.born.Add(p.refusedFrom + doubtTime)
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
	p := &e.Value
	if !p.upstream.Live() {
		return
	}
	believed, stream := p.believes(now.Sub(r.born), err), p.route.Upstream.Transport.Stream
	switch {
	case p.upstream.up:
		believed = believed || stream
	case p.life.isHeld() || p.isEnding() || p.mayTry():
		believed = true
	default:
		p.route.pool.Failed(p.server, now, r.born.Add(p.askedAt), codec.TransportError.String())
		if stream {
			postpone(now, r, e)
		}
	}
	if believed {
		r.abandonUpstream(now, e)
	} else if p.refused == refusals {
		r.dirty.mark(e) // doubtedUntil is a deadline now
	}
}

// postpone leaves a server that refuses a joining client's stream. The session asks again in a moment.
func postpone(now time.Time, r *Relay, e *Entry) {
	p := &e.Value
	r.samples.refused(p, codec.TransportError)
	r.samples.lastOfServer(p)
	p.hangUp()
	p.upstream = side{Sender: bridge.Sender{Keeps: p.upstream.Keeps}}
	p.dialBy = now.Add(seekEvery)
	r.dirty.mark(e)
}
