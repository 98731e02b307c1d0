package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/proxyproto"
	"tidegate/internal/record"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

const sharedKind = "relay"

// savedRelay is the part of a Relay that belongs to no single session.
type savedRelay struct {
	record.Head
	Last      SessionID          `cbor:"3,keyasint"` // the last session's ID
	Listeners []savedListener    `cbor:"4,keyasint,omitempty"`
	Routes    []savedRoute       `cbor:"5,keyasint,omitempty"`
	Counters  stats.Counts       `cbor:"6,keyasint,omitempty"` // open sessions are not counted as opened
	Tallies   []stats.SavedTally `cbor:"7,keyasint,omitempty"` // as well
	Clients   stats.Counts       `cbor:"8,keyasint,omitempty"`
	Upstreams stats.Counts       `cbor:"9,keyasint,omitempty"`
	Rules     []savedRule        `cbor:"10,keyasint,omitempty"`
	Meter     []record.Moment    `cbor:"11,keyasint,omitempty"` // of all sessions
	Paths     []savedWindow      `cbor:"12,keyasint,omitempty"`
	Lossy     record.Moment      `cbor:"13,keyasint,omitempty"`
	Draining  bool               `cbor:"14,keyasint,omitempty"`
	DrainBy   record.Moment      `cbor:"15,keyasint,omitempty"`
	Farewell  bool               `cbor:"16,keyasint,omitempty"`
	// Pools have the health of all servers. Only the first loop writes and reads them.
	Pools    []upstream.SavedPool `cbor:"17,keyasint,omitempty"`
	Arrivals []savedArrival       `cbor:"18,keyasint,omitempty"` // as well
}

// savedListener is a listener with the state that its sessions need.
type savedListener struct {
	Addr    netip.AddrPort `cbor:"1,keyasint"`
	Stream  bool           `cbor:"2,keyasint,omitempty"`
	Name    string         `cbor:"3,keyasint"`
	Trusted []netip.Prefix `cbor:"4,keyasint,omitempty"` // proxies
	Headers []savedProxy   `cbor:"5,keyasint,omitempty"` // last headers of trusted proxies
	Text    []byte         `cbor:"6,keyasint,omitempty"` // of its servers, for server lists
	Pong    []byte         `cbor:"7,keyasint,omitempty"`
}

// savedRoute is what remains of a route that the next configuration does not have: its sessions go on with it.
type savedRoute struct {
	Name     string        `cbor:"1,keyasint"`
	Upstream string        `cbor:"2,keyasint"`
	Protocol string        `cbor:"3,keyasint"`
	Mode     Mode          `cbor:"4,keyasint,omitempty"`
	Admit    Admit         `cbor:"5,keyasint,omitempty"`
	Hold     time.Duration `cbor:"6,keyasint,omitempty"`
	Goodbyes bool          `cbor:"7,keyasint,omitempty"`
	NewIDs   bool          `cbor:"8,keyasint,omitempty"`
	Stream   bool          `cbor:"9,keyasint,omitempty"`

	Ordered  bridge.Ordered  `cbor:"10,keyasint,omitempty"`
	Reliable bridge.Reliable `cbor:"11,keyasint,omitempty"`
	Lossy    bool            `cbor:"12,keyasint,omitempty"`
	Envelope bridge.Envelope `cbor:"13,keyasint,omitempty"`
	PacketID byte            `cbor:"14,keyasint,omitempty"`
	RawID    uint16          `cbor:"15,keyasint,omitempty"`
	Queue    int             `cbor:"16,keyasint,omitempty"`
}

type savedRule struct {
	Kind    string `cbor:"1,keyasint"`
	Name    string `cbor:"2,keyasint"`
	Matches uint64 `cbor:"3,keyasint"`
}

// savedWindow is the use of a path that sessions share.
type savedWindow struct {
	Upstream string          `cbor:"1,keyasint"`
	Server   netip.AddrPort  `cbor:"2,keyasint"`
	Source   netip.Addr      `cbor:"3,keyasint"`
	Sent     []record.Moment `cbor:"4,keyasint"`
}

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
	v := savedRelay{
		Head: record.Head{Kind: sharedKind, Version: savedVersion}, Last: r.serials.last,
		Counters: counters.Save(), Tallies: tallies.Save(),
		Clients: r.samples.toClients.Save(), Upstreams: r.samples.toUpstreams.Save(),
		Meter: x.buckets(&r.guard.all), Lossy: record.MomentOf(now, r.backlog.lossy),
	}
	v.Draining, v.DrainBy, v.Farewell = r.draining, record.MomentOf(now, r.drainBy), r.farewell
	if r.shard.index == 0 {
		v.Pools, v.Arrivals = r.pools.Save(now), r.arrivals.save(now)
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
	}
	for _, c := range r.guard.ruleCounts() {
		v.Rules = append(v.Rules, savedRule(c))
	}
	for key, p := range r.paths.byKey {
		if p.window != nil {
			v.Paths = append(v.Paths, savedWindow{key.upstream, key.server, key.source, x.sent(p)})
		}
	}
	return record.Append(b, &v)
}

func saveListener(listener *listener) savedListener {
	v := savedListener{Addr: listener.addr, Stream: listener.stream, Name: listener.name}
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

func saveRoute(r *Route) savedRoute {
	b := &r.Bridge
	return savedRoute{
		Name: r.Name, Upstream: r.Upstream.Name, Protocol: r.Upstream.Protocol.Spec().Name, Mode: r.Mode, Admit: r.Admit,
		Hold: r.Failover.Hold, Goodbyes: r.Failover.Goodbyes, NewIDs: r.Failover.NewIDs, Stream: r.Upstream.Transport.Stream,
		Ordered: b.Ordered, Reliable: b.Reliable, Lossy: b.AllowLossy, Envelope: b.Envelope, PacketID: b.PacketID,
		RawID: b.RawMessageID, Queue: b.Queue,
	}
}
