package relay

import (
	"errors"
	"hash/fnv"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/ratelimit"
	"tidegate/session"
)

// Settings are the plain values that make a proxy. The configuration fills them.
type Settings struct {
	Listeners        []Listener
	Limits           session.Limits // per Relay
	HandshakeTimeout time.Duration  // limit for a session to become established
	IdleTimeout      time.Duration  // limit for the silence of an established session's client
	DrainGrace       time.Duration  // how long sessions may go on at shutdown before their goodbyes
	DrainTimeout     time.Duration  // how long goodbyes may take at shutdown
	// Answers bounds the answers to strangers that are larger than their questions, per listener and Relay. Without a
	// bound, an attacker that forges a victim's address could flood the victim. If Overall is 0, nothing is bounded.
	Answers ratelimit.Rates
	// Unproved bounds the traffic to clients without proof of their address.
	Unproved admission.Unproved
	Filter   *filter.Set // rules about sources and messages; nil: none
	Held     admission.HeldBounds
	// Bounds are the limits of rates and queues, per Relay. There is at most one of each quantity and scope.
	Bounds []ratelimit.Limit
}

// Listener is one address where clients connect.
type Listener struct {
	Name      string
	Addr      netip.AddrPort
	Transport Transport
	// ProxiesFrom are the networks of trusted proxies. A PROXY protocol header from there names the client of a session.
	// A stream has none.
	ProxiesFrom []netip.Prefix
	Protocols   []codec.Protocol // a new client gets the first protocol whose Sniff returns true
	Route       *Route
	Joins       *joining.Tickets // of NetherNet clients; nil: none come here
	IdleTimeout time.Duration    // in place of that of Settings; 0: that one
	Stacks      Stacks           // of NetherNet clients on a Route in ModeTerminate; else nil
	Queries     *Queries         // answers for server browsers, of Any on a Route in ModeRelay; nil: servers answer
	Pong        *Pong            // text about the upstream's servers; nil where each protocol has its own
}

// Route is the upstream of a listener's clients, and the way their messages cross.
type Route struct {
	Name     string
	Upstream *Upstream
	Mode     policy.Mode // in ModeRelay the following fields do not matter
	Admit    policy.Admit
	Failover Failover
	Bridge   bridge.Options // how messages cross
	Modules  []RouteModule  // that see them before, in order
	Pings    Pings          // for the listeners' Pongs, if the upstream's protocol is a codec.Pinger
}

// Upstream is a set of equal game servers.
type Upstream struct {
	Name      string
	Protocol  codec.Protocol
	Transport Transport
	Headers   policy.Headers // not for a stream
	Checks    Checks
	Servers   []upstream.Target // in addition to servers from Server.Discovered
	Options   upstream.Options
	// Sources are the addresses of this machine that sessions to servers of their family are spread over. If there are
	// none, the system chooses.
	Sources []netip.Addr
	Pace    Pace // of each source address to each server
	// Joiner joins servers that speak NetherNet, on a Route in ModeTerminate. Without it, no server can be reached.
	Joiner Joiner
}

// provesFirst reports whether clients of a protocol prove their address before the server is asked.
func (r *Route) provesFirst(client codec.Protocol) bool {
	return r.Admit == policy.ProofFirst || r.Admit == policy.AdmitAuto && client.Spec().Proof == codec.ProvedConnect
}

// keepsClientIDs reports whether a client of a protocol has the ID from its server.
func (r *Route) keepsClientIDs(client codec.Protocol) bool {
	return !r.provesFirst(client) && r.Upstream.Protocol.Spec().IDs == codec.IDBeside
}

// staysWithID reports whether a client of a protocol must have the same ID at each server of the route.
func (r *Route) staysWithID(client codec.Protocol) bool {
	return r.keepsClientIDs(client) && client.Spec().IDs == codec.IDBeside && !r.Failover.NewIDs
}

// guessable reports whether a forger can guess what a client of a protocol answers on a route: the client ID of a
// Riptide server, since servers count their IDs up from 1.
func (r *Route) guessable(p codec.Protocol, stream bool) bool {
	return admission.ProofOf(p, stream) == codec.ProvedClientID && r.keepsClientIDs(p)
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

// Checks are the settings for health checks of an upstream's servers. upstream.Options says how many answers decide.
type Checks struct {
	By       CheckBy
	Interval time.Duration // from one check of a server to the next; longer while the server is down
	Timeout  time.Duration // for the server's answer
}

// CheckBy is the kind of a check.
type CheckBy uint8

// Kinds of checks.
const (
	CheckNothing CheckBy = iota // nothing: only sessions show the health of servers
	CheckPing                   // a question for the server's text, if the protocol is a codec.Pinger
	CheckHTTP                   // NetherNet's question over HTTP, which the driver asks
	CheckJoin                   // a join; the check leaves at once, or when the server takes too long to decide
)

// Pace bounds the datagrams to a server from one address. RakLib and Cloudburst block an address that sends too much:
// beyond 200 or 120 datagrams in 10 ms. All sessions of a proxy have one address.
type Pace struct {
	Datagrams int // of this Relay, in any span; 0: unbounded
	Span      time.Duration
	// Silent bounds the datagrams since the server's last one by which it is not busy: a server that is late finds them
	// all at once. 0: unbounded.
	Silent  int
	Busy    func(datagram []byte) time.Duration // as in registry.Descriptor
	Guessed bool                                // the server may be of a library that blocks no address, and answers late
}

// Pings are the settings for questions about servers' texts.
type Pings struct {
	Refresh time.Duration // time between questions; 0: none are asked
	Keep    time.Duration // how long the text of a silent server counts
	Name    string        // listed in place of the servers' names; empty: theirs
	Beside  bool          // ENet's servers are asked with getinfo and getstatus
}

// Sockets are the functions that a Relay needs from its loop. netio.Poller implements them.
type Sockets interface {
	Dial(to netip.AddrPort, o netio.SocketOptions) (netio.Socket, error)
	DialStream(to netip.AddrPort, o netio.StreamOptions) (netio.Socket, error)
	Buffer() []byte
	Send(s netio.Socket, to netip.AddrPort, datagram []byte)
	Forward(s netio.Socket, to netip.AddrPort, datagram []byte)
}

// Transport is the way in which datagrams of a listener or an upstream travel. The zero value is UDP.
type Transport struct {
	Stream   bool         // TCP, with each datagram as a frame
	Prefix   netio.Prefix // of each frame
	MaxFrame int          // bytes of the largest frame received; 0 means netio's limit
	// Probes says that the protocol searches for the path's MTU while it connects to a server. Routers must not fragment
	// its datagrams meanwhile. Where the system cannot forbid fragments, the search goes on without that.
	Probes bool
	// Sources, if valid, is the prefix from which each session gets its own address at a server. With Pooled, sessions
	// at different servers share sockets.
	Sources netip.Prefix
	Pooled  bool
	// ReceiveBuffer is the size in bytes of the kernel's receive buffer of each socket to a server. 0 means netio's
	// default.
	ReceiveBuffer int
	// Transparent makes sessions come from the clients' own addresses. It needs Linux, and the answers must be routed to
	// this machine.
	Transparent bool
}

// dial opens a socket to an upstream server for a client. A valid local is the source address.
func (t Transport) dial(sockets Sockets, to netip.AddrPort, local netip.Addr, client netip.AddrPort) (netio.Socket,
	error) {
	if t.Stream {
		return sockets.DialStream(to, netio.StreamOptions{Prefix: t.Prefix, MaxFrame: t.MaxFrame})
	}
	o := netio.SocketOptions{
		Local: local, Sources: t.Sources, SourceKey: sourceKey(client.Addr()), Shared: t.Pooled, DontFragment: t.Probes,
		ReceiveBuffer: t.ReceiveBuffer,
	}
	if t.Transparent {
		o.TransparentSource = client
	}
	socket, err := sockets.Dial(to, o)
	if t.Probes && errors.Is(err, errors.ErrUnsupported) {
		o.DontFragment = false
		return sockets.Dial(to, o)
	}
	return socket, err
}

// sourceKey returns the number that chooses a client's address out of an upstream's Sources. It is the same in every
// run. So a game server's bans by address stay right after a restart.
func sourceKey(client netip.Addr) uint64 {
	h := fnv.New64a()
	ip := client.As16()
	_, _ = h.Write(ip[:]) // never fails
	return h.Sum64()
}

// probed ends the search for the path's MTU. If the path becomes narrower later, that costs fragments and not the
// session.
func (t Transport) probed(s netio.Socket) {
	if p, ok := s.(netio.FragmentControl); ok && t.Probes {
		_ = p.AllowFragments() // without this feature the path must keep its MTU
	}
}
