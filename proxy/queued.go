package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// judgeQueue counts the bytes that wait in a session, and applies the limits on them. A limit over several sessions
// only applies to sessions with more than their share.
func (r *Relay) judgeQueue(now time.Time, e *entry) {
	rules := r.guard.limits.queues
	if len(rules) == 0 {
		return
	}
	p := &e.Value
	queued := p.client.Conn.Stats().Queued + p.client.Held() + p.upstream.Held()
	if p.upstream.Conn != nil {
		queued += p.upstream.Conn.Stats().Queued
	}
	r.guard.count(&p.meter, queued-p.meter.own.queued)
	p.choked = false
	if queued == 0 || p.ending {
		return
	}
	for _, l := range rules {
		n := r.guard.at(&p.meter, l.Per)
		if n.queued <= l.Rate.PerSecond || queued*n.sessions < n.queued || !r.guard.breaks(l) {
			continue
		}
		if l.Verdict == ratelimit.Drop {
			p.choked = true
			continue
		}
		r.drops.add(now, dropped{stats.DropQueueFull, p.listener, e.Key.Client, queued, l.why})
		if l.Verdict == ratelimit.BanSource {
			r.banSource(now, e, l.String())
		} else {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
		}
		return
	}
}

// count adds to the waiting bytes of a session and of all nodes that include it.
func (g *guard) count(m *meter, more int) {
	if more == 0 {
		return
	}
	m.own.queued += more
	g.all.queued += more
	if m.address != nil {
		m.address.queued += more
		m.network.queued += more
	}
}
