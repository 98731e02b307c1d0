package relay

import (
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/ratelimit"
	"tidegate/session"
)

// socketsPerLoop is the number of ports to servers that each Relay of a process has.
const socketsPerLoop = 10000

// process is a proxy in the simulated network: Relays that share the listeners, as loops do. The network steers each
// client to one of them.
type process struct {
	net      *simnet.Net
	settings *Settings
	bans     *ratelimit.Bans
	nodes    []*relayNode
	shared   *Shared
	earlier  uint64 // number of times that its Relays were replaced
}

func newProcess(net *simnet.Net, settings *Settings, seed uint64, loops, sockets int) *process {
	p := &process{net: net, settings: settings, bans: ratelimit.NewBans(banTerms)}
	var addrs []netip.AddrPort
	for _, l := range settings.Listeners {
		addrs = append(addrs, l.Addr)
	}
	for i := range loops {
		n := &relayNode{
			net: net, dialed: i * socketsPerLoop, buffer: make([]byte, 0, codec.MaxDatagram),
			sockets: make(map[netip.AddrPort]*simSocket), streams: make(map[streamKey]*simStream),
		}
		for _, l := range settings.Listeners {
			n.sockets[l.Addr] = &simSocket{addr: l.Addr}
		}
		for k := range sockets {
			addrs = append(addrs, upstreamSocketAddr(i*socketsPerLoop+k))
		}
		p.nodes = append(p.nodes, n)
	}
	p.begin(seed, net.Now())
	net.Add(p, addrs...)
	return p
}

// begin makes new Relays, which share what loops share.
func (p *process) begin(seed uint64, born time.Time) {
	p.shared = NewShared(born, seed)
	p.newJoins()
	o := Options{Shards: len(p.nodes), Log: zerolog.Nop(), Bans: p.bans, Shared: p.shared}
	for i, n := range p.nodes {
		o.Shard, o.Seed = i, seed+uint64(i)
		n.relay = New(p.settings, o, n, born)
		for k, l := range p.settings.Listeners {
			n.relay.Attach(k, n.sockets[l.Addr])
		}
		for _, s := range n.streams { // netio hands over the clients' streams without a session, too
			if old, ok := s.owner.(*listener); ok {
				s.owner = n.listenerAt(old.addr)
			}
		}
	}
}

func (n *relayNode) listenerAt(addr netip.AddrPort) *listener {
	for _, l := range n.relay.listeners {
		if l.addr == addr {
			return l
		}
	}
	return nil
}

// node returns the Relay that gets datagrams from a peer to an address of the process. A session from elsewhere may
// have another loop's address towards its server.
func (p *process) node(peer, own netip.AddrPort) *relayNode {
	for _, n := range p.nodes {
		if s := n.sockets[own]; s != nil && !s.closed && s.peer == peer {
			return n
		}
	}
	if i := int(own.Port()) - int(upstreamSocketAddr(0).Port()); i >= 0 {
		return p.nodes[i/socketsPerLoop]
	}
	a := peer.Addr().As4()
	return p.nodes[(int(peer.Port())+int(a[3]))%len(p.nodes)]
}

// entryOf returns the session of a client at a listener, or nil.
func (p *process) entryOf(client, at netip.AddrPort) *Entry {
	n := p.node(client, at)
	l := n.listenerAt(at)
	if l == nil {
		return nil
	}
	return n.relay.table.peek(session.Key{Listener: l.index, Client: client})
}

// all calls f with each session.
func (p *process) all(f func(*Entry)) {
	for _, n := range p.nodes {
		for e := range n.relay.table.All {
			f(e)
		}
	}
}

// relayOf returns the Relay of a session.
func (p *process) relayOf(e *Entry) *Relay {
	for _, n := range p.nodes {
		if n.relay.table.peek(e.Key) == e {
			return n.relay
		}
	}
	return nil
}

func (p *process) Receive(now time.Time, from, to netip.AddrPort, datagram []byte) {
	p.node(from, to).Receive(now, from, to, datagram)
}

func (p *process) Advance(now time.Time) {
	for _, n := range p.nodes {
		if !n.stopped {
			n.Advance(now)
		}
	}
}

func (p *process) NextTimeout() (next time.Time) {
	for i, n := range p.nodes {
		if len(p.shared.handed.bags[i]) > 0 && !n.stopped {
			return p.net.Now() // as the other loop wakes it
		}
		next = codec.Earliest(next, n.NextTimeout())
	}
	return next
}

func (p *process) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	for _, n := range p.nodes {
		if out, from, to, ok := n.Transmit(now, b); ok {
			return out, from, to, true
		}
	}
	return b, netip.AddrPort{}, netip.AddrPort{}, false
}

// Accept implements simnet.StreamNode, together with Segment and Ended.
func (p *process) Accept(now time.Time, from, to netip.AddrPort) bool {
	return p.node(from, to).Accept(now, from, to)
}

func (p *process) Segment(now time.Time, from, to netip.AddrPort, segment []byte) {
	p.node(from, to).Segment(now, from, to, segment)
}

func (p *process) Ended(now time.Time, from, to netip.AddrPort) {
	p.node(from, to).Ended(now, from, to)
}

func (p *process) stop(now time.Time) {
	for _, n := range p.nodes {
		n.stop(now)
	}
}

func (p *process) resume(now time.Time) {
	for _, n := range p.nodes {
		n.resume(now)
	}
}

// image is what a process writes of itself.
type image struct {
	shared  [][]byte // by Relay
	records [][]savedRecord
	drained map[string][]netip.AddrPort
}

func (p *process) save(now time.Time) *image {
	m := &image{drained: make(map[string][]netip.AddrPort)}
	for _, n := range p.nodes {
		shared, records := exportAll(n.relay, now)
		m.shared, m.records = append(m.shared, shared), append(m.records, records)
	}
	for _, l := range p.settings.Listeners {
		name := l.Route.Upstream.Name
		m.drained[name] = p.shared.Pools.Get(name).Drained()
	}
	return m
}

// closeAllBut closes the sockets to servers that no record has, as the end of the old process does.
func (n *relayNode) closeAllBut(records []savedRecord) {
	kept := make(map[netio.Socket]bool)
	for _, r := range records {
		for _, s := range r.sockets {
			kept[s] = true
		}
	}
	for _, s := range n.sockets {
		if s.peer.IsValid() && !kept[s] {
			s.Close()
		}
	}
}

// replace makes new Relays, which import an image. It returns the old ones.
func (p *process) replace(j *judge, m *image) (old []*Relay) {
	now := p.net.Now()
	for i, n := range p.nodes {
		old = append(old, n.relay)
		n.closeAllBut(m.records[i])
	}
	p.earlier++ // each process has secrets of its own
	// A Relay wakes at whole milliseconds since its birth.
	p.begin(99+p.earlier<<16, now.Add(p.net.Elapsed().Truncate(time.Millisecond)-p.net.Elapsed()))
	for name, drained := range m.drained {
		p.shared.Pools.Get(name).InheritDrains(now, drained)
	}
	for i, n := range p.nodes {
		importAll(j, n.relay, now, m.shared[i], m.records[i], n.copies...)
		n.copies = nil
	}
	return old
}
