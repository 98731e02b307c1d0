package relay

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Forwarder carries the datagrams of established sessions in ModeRelay in place of the Relay. In the kernel it is a
// flow.Table. It is safe for concurrent use.
type Forwarder interface {
	Add(f flow.Flow, r flow.Rate) error
	// Delete ends the forwarding at once and returns all forwarded traffic.
	Delete(f flow.Flow) (last flow.Traffic, ok bool)
	// Usage returns false if there is no such flow, or if its network path has changed.
	Usage(f flow.Flow) (u flow.Usage, ok bool)
	// Changes grows when flows are removed because their network paths have changed.
	Changes() uint64
}

// Reasons why the kernel does not forward a listener's sessions.
var (
	errTerminated = errors.New(`the route is not in mode "relay"`)
	errHeaders    = errors.New("PROXY protocol headers are read or written")
	errTransport  = errors.New("TCP on a side")
	errBorrowed   = errors.New("sessions have the players' own addresses at the servers")
	errPace       = errors.New("the upstream has a pace")
	errShareLimit = errors.New("a limit of packets or bytes is not per session, or does not drop")
)

// Forwardable returns nil if a Forwarder may carry the sessions of a listener, or the reason against it.
func (s *Settings) Forwardable(l *Listener) error {
	switch u := l.Route.Upstream; {
	case l.Route.Mode != policy.ModeRelay:
		return errTerminated
	case len(l.ProxiesFrom) > 0 || u.Headers != policy.HeadersOff:
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
		if (b.Of == ratelimit.Packets || b.Of == ratelimit.Bytes) &&
			(b.Per != ratelimit.PerSession || b.Verdict != ratelimit.Drop) {
			return errShareLimit
		}
	}
	return nil
}

// flowRate is the rate that a session may send through a Forwarder.
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

// offload gives relayed sessions to a Forwarder, and takes them back.
type offload struct {
	forwarder Forwarder // nil: none
	rate      flow.Rate // the limit of each session
	journal   *journal
	watches   func(e *Entry) bool // reports whether a capture needs the session's datagrams in user space
}

// refusedBy is short for changes, and never 0.
func refusedBy(changes uint64) uint16 { return uint16(changes)<<1 | 1 }

// offer gives an established session to the Forwarder, if it is suitable and was not refused. It is called for each
// datagram in user space. A datagram of a forwarded session gets there if the network path has changed, or if it is
// fragmented or too large.
func (o *offload) offer(now time.Time, e *Entry) {
	s := &e.Value
	if o.forwarder == nil || s.life != joined || s.gate != codec.GateOpen || !s.listener.forwardable || s.node() != "" ||
		o.watches(e) {
		return
	}
	changes := o.forwarder.Changes()
	switch {
	case s.shortcut == nil && s.refusedAt == refusedBy(changes):
		return
	case s.shortcut != nil && s.shortcut.changes == changes && (s.edge == nil || s.shortcut.flow == s.flow(e)):
		return
	}
	o.recall(e)
	f, rate := s.flow(e), o.rate
	rate.Records = s.edge != nil
	if err := o.forwarder.Add(f, rate); err != nil {
		s.refusedAt = refusedBy(changes)
		o.journal.notForwarded(now, e, err)
		return
	}
	s.shortcut = &shortcut{flow: f, changes: changes}
}

// flow returns the session as the kernel knows it. If the listener's socket has no specific address, the client's
// datagram came by a face that has one. A NetherNet client's is the address that it uses now.
func (s *link) flow(e *Entry) flow.Flow {
	f := flow.Flow{Client: e.Key.Client, Listener: s.face.Addr(), Source: s.socket.Addr(), Server: s.server.Addr}
	if s.edge != nil {
		f.Client, f.Server = s.edge.sources.Active(), s.edge.ticket.Told().Target
	}
	return f
}

// recall ends the forwarding of a session, so that all its datagrams reach user space again.
func (o *offload) recall(e *Entry) {
	s := &e.Value
	if s.shortcut == nil {
		return
	}
	if last, ok := o.forwarder.Delete(s.shortcut.flow); ok {
		s.count(last)
	}
	s.shortcut = nil
}

// update is review for a session whose figures are about to be shown.
func (o *offload) update(now time.Time, e *Entry) {
	if e.Value.shortcut != nil {
		o.review(now, e)
	}
}

// review copies the Forwarder's figures of a session into the session. The Relay's own counters do not include them.
func (o *offload) review(now time.Time, e *Entry) {
	s := &e.Value
	if s.shortcut == nil {
		s.refusedAt = 0 // there may be room now
		return
	}
	u, ok := o.forwarder.Usage(s.shortcut.flow)
	if !ok {
		o.recall(e)
		return
	}
	if u.FromServer.Packets > s.shortcut.counted.FromServer.Packets {
		s.refused = 0
		s.server.Heard(now)
	}
	s.count(u.Traffic)
	heard := s.since(now) - u.ClientIdle
	s.heard = max(s.heard, heard)
	if s.edge != nil {
		s.edge.sources.Carried(heard)
	}
}

// count adds the traffic that the Forwarder has carried since the last call to a session's traffic.
func (s *link) count(all flow.Traffic) {
	known := &s.shortcut.counted
	s.fromClient.Join(since(all.FromClient, known.FromClient))
	s.fromServer.Join(since(all.FromServer, known.FromServer))
	*known = all
}

// since returns the traffic between two counts of the kernel.
func since(now, before flow.Count) stats.Traffic {
	return stats.Traffic{Messages: now.Packets - before.Packets, Bytes: now.Bytes - before.Bytes}
}
