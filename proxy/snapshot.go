package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

// Snapshot is the state of a proxy at one moment.
type Snapshot struct {
	Counters stats.Counters
	Sockets  []netio.Stats // of each loop
	Sessions []Session     // by Relay, each oldest first
	Kernel   stats.KernelFigures
}

// Session is one session of a Snapshot.
type Session struct {
	ID               SessionID
	Listener         string
	Route            string
	Client           netip.AddrPort
	Server           netip.AddrPort // zero while no server is chosen
	ClientProtocol   string
	UpstreamProtocol string
	Age              time.Duration
	Established      bool
	Relayed          bool // in ModeRelay: traffic counts datagrams, and there are no Stats
	Forwarded        bool // the kernel forwards the session
	Ending           bool // the proxy is saying goodbye
	Held             bool // the session has lost or left its server, and waits for another
	FromClient       stats.Traffic
	FromUpstream     stats.Traffic
	ClientStats      codec.Stats
	UpstreamStats    codec.Stats
}

// describe copies the state of a session. Of a relayed session the proxy does not know the content.
func describe(r *Relay, now time.Time, e *entry) Session {
	p := &e.Value
	r.offload.update(now, e)
	s := Session{
		ID:               p.serial,
		Listener:         p.listener.name,
		Route:            p.route.Name,
		Client:           e.Key.Client,
		ClientProtocol:   p.protocol.Spec().Name,
		UpstreamProtocol: p.route.Upstream.Protocol.Spec().Name,
		Age:              now.Sub(p.opened),
		FromClient:       p.fromClient,
		FromUpstream:     p.fromServer,
	}
	if p.server != nil {
		s.Server = p.server.Addr
	}
	if p.isRelayed() {
		s.Relayed, s.Established, s.Forwarded = true, p.established, p.shortcut != nil
		return s
	}
	s.Established = p.client.up && p.upstream.up && !p.ending
	s.Ending, s.Held = p.ending, p.hold != nil
	s.ClientStats, s.UpstreamStats = p.stats()
	return s
}

// stats returns the statistics of both connections.
func (p *terminated) stats() (client, server codec.Stats) {
	if p.upstream.Conn != nil {
		server = p.upstream.Conn.Stats()
	}
	return p.client.Conn.Stats(), server
}
