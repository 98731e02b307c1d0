package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/proxyproto"
	"tidegate/internal/record"
	"tidegate/proxy/relay/saved"
	"tidegate/ratelimit"
)

func saveProxy(f *trustedProxy) *saved.Proxy {
	if f == nil {
		return nil
	}
	return &saved.Proxy{Addr: f.addr, Header: f.header}
}

func restoreProxy(v *saved.Proxy) *trustedProxy {
	if v == nil {
		return nil
	}
	return &trustedProxy{v.Addr, v.Header}
}

func savePreamble(p *preamble) *saved.Preamble {
	if p == nil {
		return nil
	}
	return &saved.Preamble{Header: p.header, When: uint8(p.when)}
}

func restorePreamble(v *saved.Preamble) *preamble {
	if v == nil {
		return nil
	}
	return &preamble{v.Header, policy.Headers(v.When)}
}

// momentOfBucket returns the time until which a bucket is used up; zero means that it is full. start is the start of
// the bucket's time.
func momentOfBucket(now, start time.Time, b ratelimit.Bucket) record.Moment {
	paid := start.Add(time.Duration(b))
	if !paid.After(now) {
		return 0
	}
	return record.MomentOf(now, paid)
}

// maxUsedUp bounds the time until which a bucket of a record is used up.
const maxUsedUp = time.Hour

func bucketOf(now, start time.Time, m record.Moment) ratelimit.Bucket {
	paid := m.Time(now)
	if paid.IsZero() || paid.After(now.Add(maxUsedUp)) {
		return 0
	}
	return ratelimit.Bucket(paid.Sub(start))
}

// isOwn reports whether a session's socket to its client belongs to it alone.
func (s *link) isOwn(face netio.Socket) bool { return netio.ListenerOf(face) != s.listener.socket }

// shared appends the record of the Relay without its sessions.
func (x *Exporter) shared(b []byte) []byte {
	r, now := x.relay, x.now
	counters, tallies := r.counters, r.samples.tallies.Clone()
	for e := range r.table.All {
		t := tallies.Of(e.Value.tally.Listener, e.Value.tally.Protocol)
		t.Opened--
		if e.Value.life.hasJoined() {
			t.Established--
		}
	}
	counters.Opened -= uint64(r.table.Len())
	v := saved.Relay{
		Head: record.Head{Kind: saved.RelayKind, Version: saved.Version}, Last: uint64(r.serials.last),
		Counters: counters.Save(), Tallies: tallies.Save(),
		Clients: r.samples.toClients.Save(), Upstreams: r.samples.toUpstreams.Save(),
		Meter: x.buckets(r.guard.Overall()), Lossy: record.MomentOf(now, r.backlog.Lossy),
	}
	v.Draining, v.DrainBy, v.Farewell = r.draining, record.MomentOf(now, r.drainBy), r.farewell
	if r.shard.index == 0 {
		v.Pools, v.Arrivals = r.pools.Save(), r.arrivals.save(now)
	}
	listeners, routes := slices.Concat(r.listeners, r.retired.list), []*Route(nil)
	for e := range r.table.All {
		if l := e.Value.listener; !slices.Contains(listeners, l) { // retired, and for streams
			listeners = append(listeners, l)
		}
		if route := e.Value.route.Route; !slices.Contains(routes, route) {
			routes = append(routes, route)
			v.Routes = append(v.Routes, saveRoute(route))
		}
	}
	for _, l := range listeners {
		v.Listeners = append(v.Listeners, saveListener(l))
		if l.joins != nil && r.shard.index == 0 {
			last, counts := &v.Listeners[len(v.Listeners)-1], l.joins.table.Counts()
			last.Joins, last.JoinCounts = l.joins.table.Save(now), counts[:]
		}
	}
	for _, c := range r.guard.RuleCounts() {
		v.Rules = append(v.Rules, saved.Rule(c))
	}
	for key, p := range r.paths.byKey {
		if p.window != nil {
			v.Paths = append(v.Paths, saved.Window{
				Upstream: key.upstream, Server: key.server, Source: key.source, Sent: x.sent(p),
			})
		}
	}
	return record.AppendAt(now, b, &v)
}

func saveListener(listener *listener) saved.Listener {
	v := saved.Listener{Addr: listener.addr, Stream: listener.stream, Name: listener.name}
	if listener.proxies != nil {
		v.Trusted = listener.proxies.trusted
		for _, headers := range []map[netip.AddrPort]proxyproto.Header{listener.proxies.older, listener.proxies.recent} {
			for from, h := range headers {
				v.Headers = append(v.Headers, *saveProxy(&trustedProxy{from, h}))
			}
		}
	}
	if listener.pong != nil {
		if l := listener.pong.listing.Load(); l != nil {
			v.Text, v.Pong = l.text, l.pong
		}
	}
	return v
}

func saveRoute(r *Route) saved.Route {
	b := &r.Bridge
	return saved.Route{
		Name: r.Name, Upstream: r.Upstream.Name, Protocol: r.Upstream.Protocol.Spec().Name,
		Mode: uint8(r.Mode), Admit: uint8(r.Admit),
		Hold: r.Failover.Hold, Goodbyes: r.Failover.Goodbyes, NewIDs: r.Failover.NewIDs, Stream: r.Upstream.Transport.Stream,
		Ordered: b.Ordered, Reliable: b.Reliable, Lossy: b.AllowLossy, Envelope: b.Envelope, PacketID: b.PacketID,
		RawID: b.RawMessageID, Queue: b.Queue,
	}
}
