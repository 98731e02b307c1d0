package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/ratelimit"
	sessions "tidegate/session"
)

// Settings is what a proxy is made of: plain values, filled from the configuration.
type Settings struct {
	Listeners        []Listener
	Limits           sessions.Limits // per Relay
	HandshakeTimeout time.Duration   // a session that is not established by then is given up
	IdleTimeout      time.Duration   // an established session whose client is silent for so long is given up
	DrainGrace       time.Duration   // how long sessions may go on at shutdown before they are told goodbye
	DrainTimeout     time.Duration   // how long goodbyes may take at shutdown
	// Answers bounds those of each listener that go to strangers and are larger than what they answer, per Relay: whoever
	// forges a victim's address would have them flooded. Nothing is bounded if Overall is 0.
	Answers ratelimit.Rates
	// Unproved bounds what goes to clients without proof of their address.
	Unproved Unproved
	Filter   *filter.Set // rules about sources and messages; nil: none
	// Bounds are the limits of rates and queues, at most one of each quantity and scope, and Networks what counts as one
	// in those by network; per Relay.
	Bounds   []ratelimit.Limit
	Networks ratelimit.Networks
}

// Listener is one address clients come to.
type Listener struct {
	Name      string
	Addr      netip.AddrPort
	Transport Transport
	// ProxiesFrom are the networks of proxies whose PROXY protocol headers are believed: a session is that of the client
	// they name. Not of a stream.
	ProxiesFrom []netip.Prefix
	Protocols   []codec.Protocol // the first whose Sniff says yes gets the newcomer
	Route       *Route
	Pong        *Pong // what its protocols say of the upstream's servers; nil where they speak for themselves
}

// Route says where a listener's clients go and how their messages cross.
type Route struct {
	Name     string
	Upstream *Upstream
	Mode     Mode // in ModeRelay what follows does not matter
	Admit    Admit
	Failover Failover
	Bridge   bridge.Options // how messages cross
	Pings    Pings          // for the listeners' Pongs, of an upstream whose protocol is a codec.Pinger
}

// Upstream is a set of equal game servers.
type Upstream struct {
	Name      string
	Protocol  codec.Protocol
	Transport Transport
	Headers   Headers // not of a stream
	Checks    Checks
	Servers   []upstream.Target // beside those that Server.Discovered tells of
	Options   upstream.Options
	// Sources are the addresses of this machine that sessions are spread over, to servers of their family; none: the
	// system chooses.
	Sources []netip.Addr
	Pace    Pace // of each source towards each server
}

// Admit is when the upstream is asked about a newcomer.
type Admit uint8

// Ways to admit.
const (
	// UpstreamFirst dials the upstream before the client is let in, so that the client hears the upstream's refusal,
	// or its own client ID, in its own protocol.
	UpstreamFirst Admit = iota
	// ProofFirst lets the client in, and dials the upstream once the client has proved its address.
	ProofFirst
	// AdmitAuto is ProofFirst for clients whose handshake proves their address before it ends (ENet, RUDP), so that a
	// flood of forged ones never reaches a server. For all others it is UpstreamFirst.
	AdmitAuto
)

// provesFirst reports whether clients of a protocol prove their address before the server is asked.
func (r *Route) provesFirst(client codec.Protocol) bool {
	return r.Admit == ProofFirst || r.Admit == AdmitAuto && client.Spec().Proof == codec.ProvedConnect
}

// keepsClientIDs reports whether a client of a protocol has the ID that its server gave it.
func (r *Route) keepsClientIDs(client codec.Protocol) bool {
	return !r.provesFirst(client) && r.Upstream.Protocol.Spec().IDs == codec.IDBeside
}

// asksFirst reports whether the server is asked before a client of a protocol is granted its connection.
func (r *Route) asksFirst(client codec.Protocol) bool {
	return !r.provesFirst(client) && grants(client) && grants(r.Upstream.Protocol)
}

// grants reports whether a protocol is a codec.Granter.
func grants(p codec.Protocol) bool {
	_, ok := p.(codec.Granter)
	return ok
}
