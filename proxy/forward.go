package proxy

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/internal/kernel/flow"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Forwarder carries the datagrams of established sessions in ModeRelay in place of the Relay: the kernel, as
// flow.Table. It is safe for concurrent use.
type Forwarder interface {
	Add(f flow.Flow, r flow.Rate) error
	// Delete ends the forwarding at once and returns all that was forwarded.
	Delete(f flow.Flow) (last flow.Traffic, ok bool)
	// Usage is not ok if the flow is not there, or no longer, as its way has changed.
	Usage(f flow.Flow) (u flow.Usage, ok bool)
	// Changes grows when flows have gone since their ways had changed.
	Changes() uint64
}

// Reasons why sessions of a listener are not forwarded by the kernel.
var (
	errTerminated = errors.New(`the route is not in mode "relay"`)
	errHeaders    = errors.New("PROXY protocol headers are read or written")
	errTransport  = errors.New("TCP on a side")
	errBorrowed   = errors.New("sessions have the players' own addresses at the servers")
	errPace       = errors.New("the upstream has a pace")
	errShareLimit = errors.New("a limit of packets or bytes is not per session, or does not drop")
)

// Forwardable returns nil if a Forwarder may carry the sessions of a listener, or why not.
func (s *Settings) Forwardable(l *Listener) error {
	switch u := l.Route.Upstream; {
	case l.Route.Mode != ModeRelay:
		return errTerminated
	case len(l.ProxiesFrom) > 0 || u.Headers != HeadersOff:
		return errHeaders
	case l.Transport.Stream || u.Transport.Stream:
		return errTransport
	case u.Transport.Transparent:
		return errBorrowed
	case u.Pace.Datagrams > 0:
		return errPace
	}
	for i := range s.Bounds {
		b := &s.Bounds[i]
		if ofDatagrams(b) && (b.Per != ratelimit.PerSession || b.Verdict != ratelimit.Drop) {
			return errShareLimit
		}
	}
	return nil
}

// flowRate is what a session may send through a Forwarder.
func (s *Settings) flowRate() (r flow.Rate) {
	for i := range s.Bounds {
		switch b := &s.Bounds[i]; {
		case b.Per != ratelimit.PerSession:
		case b.Of == ratelimit.Packets:
			r.Packets, r.PacketBurst = b.Rate.PerSecond, b.Rate.Burst
		case b.Of == ratelimit.Bytes:
			r.Bytes, r.ByteBurst = b.Rate.PerSecond, b.Rate.Burst
		}
	}
	return r
}

func ofDatagrams(b *ratelimit.Limit) bool {
	return b.Of == ratelimit.Packets || b.Of == ratelimit.Bytes
}

// shortcut is a session's way through a Forwarder.
type shortcut struct {
	flow    flow.Flow
	counted flow.Traffic // of what it has forwarded, in the session's Traffic
	changes uint64       // of the Forwarder when it was added
}

// offload gives relayed sessions to a Forwarder, and takes them back.
type offload struct {
	forwarder Forwarder // nil: none
	rate      flow.Rate // of each of its sessions
	journal   *journal
	watches   func(e *entry) bool // reports whether a capture needs the session's datagrams here
}

// offer gives an established session to the Forwarder, if it may have it and has not refused it. It is called with each
// datagram that comes here, which one of a forwarded session does if its way has changed, or as it is cut or too large.
func (o *offload) offer(now time.Time, e *entry) {
	p := &e.Value
	if o.forwarder == nil || !p.established || !p.listener.forwardable || o.watches(e) {
		return
	}
	changes := o.forwarder.Changes()
	switch {
	case p.shortcut == nil && p.refusedAt == changes+1:
		return
	case p.shortcut != nil && p.shortcut.changes == changes:
		return
	}
	o.recall(e)
	f := p.flow(e.Key.Client)
	if err := o.forwarder.Add(f, o.rate); err != nil {
		p.refusedAt = changes + 1
		o.journal.notForwarded(now, e, err)
		return
	}
	p.shortcut = &shortcut{flow: f, changes: changes}
}

// flow is the session as the kernel knows it. Where the listener's socket has no address of its own, the client's
// datagram came by a Face that has.
func (p *session) flow(client netip.AddrPort) flow.Flow {
	return flow.Flow{Client: client, Listener: p.face.Addr(), Source: p.socket.Addr(), Server: p.server.Addr}
}

// recall has all datagrams of a session come here again.
func (o *offload) recall(e *entry) {
	p := &e.Value
	if p.shortcut == nil {
		return
	}
	if last, ok := o.forwarder.Delete(p.shortcut.flow); ok {
		p.count(last)
	}
	p.shortcut = nil
}

// recallAll does so for all sessions.
func (o *offload) recallAll(t sessionTable) {
	for e := range t.All {
		o.recall(e)
		e.Value.refusedAt = 0
	}
}

// recallWatched does so for the sessions that a capture watches.
func (o *offload) recallWatched(t sessionTable) {
	for e := range t.All {
		if o.watches(e) {
			o.recall(e)
		}
	}
}

// review takes over what a Forwarder knows of a session. The Relay's own counters have nothing of it.
func (o *offload) review(now time.Time, e *entry) {
	p := &e.Value
	if p.shortcut == nil {
		p.refusedAt = 0 // there may be room now
		return
	}
	u, ok := o.forwarder.Usage(p.shortcut.flow)
	if !ok {
		o.recall(e)
		return
	}
	if u.FromServer.Packets > p.shortcut.counted.FromServer.Packets {
		p.refused = 0
		p.server.Heard(now)
	}
	p.count(u.Traffic)
	if heard := now.Add(-u.ClientIdle); heard.After(p.heard) {
		p.heard = heard
	}
}

// count adds to a session's traffic what its Forwarder has carried since the last time.
func (p *session) count(all flow.Traffic) {
	known := &p.shortcut.counted
	p.fromClient.Join(since(all.FromClient, known.FromClient))
	p.fromServer.Join(since(all.FromServer, known.FromServer))
	*known = all
}

// since is the traffic between two counts of the kernel's.
func since(now, before flow.Count) stats.Traffic {
	return stats.Traffic{Messages: now.Packets - before.Packets, Bytes: now.Bytes - before.Bytes}
}
