package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/proxyproto"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// tap stands between a Relay and its sockets while a capture runs or a black box records, and copies the datagrams.
// Else there is no tap.
type tap struct {
	Sockets
	table  sessionTable
	now    time.Time // the time of the loop's turn
	spools []*recording.Spool
	box    *recording.BlackBox // nil: nothing is recorded
	prefix []byte              // scratch
	record []byte              // scratch
}

// at notes the time. A turn may run deadlines of an earlier time, after a pause.
func (t *tap) at(now time.Time) {
	if t != nil && now.After(t.now) {
		t.now = now
	}
}

// watches reports whether a capture or a black box needs a session's datagrams, so that they must not be forwarded
// elsewhere.
func (t *tap) watches(e *Entry) bool {
	if t == nil || t.box != nil {
		return t != nil
	}
	about := topicOf(e.Value.route, e.Key.Client, e.Value.serial)
	return t.wanted(&about)
}

// Send implements Sockets.
func (t *tap) Send(s netio.Socket, to netip.AddrPort, datagram []byte) {
	t.sent(s, to, datagram)
	t.Sockets.Send(s, to, datagram)
}

// Forward implements Sockets.
func (t *tap) Forward(s netio.Socket, to netip.AddrPort, datagram []byte) {
	t.sent(s, to, datagram)
	t.Sockets.Forward(s, to, datagram)
}

func (t *tap) sent(s netio.Socket, to netip.AddrPort, datagram []byte) {
	if peer := s.Peer(); peer.IsValid() {
		to = peer
	}
	t.copy(s, &recording.Captured{At: t.now, From: s.Addr(), To: to, Sent: true}, to, datagram)
}

// received copies a datagram before the Relay reads it, since a codec may overwrite it.
func (t *tap) received(now time.Time, s netio.Socket, from netip.AddrPort, datagram []byte) {
	t.at(now)
	t.copy(s, &recording.Captured{At: t.now, From: from, To: s.Addr()}, from, datagram)
}

// inside copies what DTLS and HTTP hide of a NetherNet session, as a record that DTLS does not have.
func (t *tap) inside(e *Entry, from policy.Direction, kind byte, content []byte) {
	s := &e.Value
	called := !s.isRelayed() && s.call != nil && s.socket != nil
	if t == nil || s.edge == nil && !called {
		return
	}
	t.record = nethernet.AppendInside(t.record[:0], kind, content)
	if s.edge != nil {
		t.crossed(s.face, e.Key.Client, from == policy.FromUpstream)
	}
	if called {
		t.crossed(s.socket, s.socket.Peer(), from == policy.FromClient)
	}
}

// joined copies how a session's client has joined.
func (t *tap) joined(e *Entry, l *listener, ticket *joining.Ticket) {
	if t != nil {
		t.inside(e, policy.FromClient, nethernet.InsideJoin, []byte(l.joins.table.Story(ticket)))
	}
}

func (t *tap) crossed(s netio.Socket, peer netip.AddrPort, sent bool) {
	if sent {
		t.sent(s, peer, t.record)
	} else {
		t.received(t.now, s, peer, t.record)
	}
}

func (t *tap) copy(s netio.Socket, c *recording.Captured, peer netip.AddrPort, datagram []byte) {
	about := t.topic(s, peer, datagram, c.Sent)
	if t.box == nil && !t.wanted(&about) {
		return
	}
	c.Upstream, c.Session, c.Stream = about.upstream, about.session, about.transport.Stream
	t.prefix = t.prefix[:0]
	if c.Stream {
		t.prefix = about.transport.Prefix.Append(t.prefix, len(datagram))
	}
	if t.box != nil {
		t.box.Put(c, about.client, t.prefix, datagram)
	}
	for _, spool := range t.spools {
		if about.chosenBy(spool.Filter()) {
			spool.Put(c, t.prefix, datagram)
		}
	}
}

// wanted reports whether any capture's filter selects the topic.
func (t *tap) wanted(about *topic) bool {
	return slices.ContainsFunc(t.spools, func(s *recording.Spool) bool { return about.chosenBy(s.Filter()) })
}

// topic has the facts about a datagram that filters look at.
type topic struct {
	transport Transport
	upstream  bool           // between the proxy and a server
	client    netip.AddrPort // the zero AddrPort: no client's
	session   session.ID     // 0: none
	route     string         // empty: none, a check of an upstream's servers
	pool      string         // the upstream
}

func (about *topic) chosenBy(f *recording.CaptureFilter) bool {
	return (f.Session == 0 || f.Session == about.session) &&
		(!f.Client.IsValid() || f.Client.Contains(about.client.Addr().Unmap().WithZone(""))) &&
		(f.Route == "" || f.Route == about.route) &&
		(f.Upstream == "" || f.Upstream == about.pool)
}

func (t *tap) topic(s netio.Socket, peer netip.AddrPort, datagram []byte, sent bool) topic {
	switch owner := s.Owner().(type) {
	case *listener:
		return t.topicAt(owner, owner.clientOf(peer, datagram, sent))
	case *Entry:
		return topicOf(owner.Value.route, owner.Key.Client, owner.Value.serial)
	case interface{ topic() topic }: // a connection that is closing, a check, or a question
		return owner.topic()
	}
	return topic{} // of a socket without an owner yet
}

// topicOf returns the topic of a datagram between the proxy and a server. client is zero if the datagram is no
// client's.
func topicOf(r *route, client netip.AddrPort, id session.ID) topic {
	pool := r.Upstream
	return topic{transport: pool.Transport, upstream: true, client: client, session: id, route: r.Name, pool: pool.Name}
}

// topicAt returns the topic of a datagram between a client and a listener, with or without a session.
func (t *tap) topicAt(l *listener, client netip.AddrPort) topic {
	r, id := l.route, session.ID(0)
	if e := t.table.peek(session.Key{Listener: l.index, Client: client}); e != nil {
		r, id = e.Value.route, e.Value.serial
	}
	return topic{transport: l.transport, client: client, session: id, route: r.Name, pool: r.Upstream.Name}
}

// clientOf returns the client of a datagram between a listener and a peer. If the peer is a trusted proxy, its
// present or last header names the client.
func (l *listener) clientOf(peer netip.AddrPort, datagram []byte, sent bool) netip.AddrPort {
	f := l.proxies
	if f == nil || !f.trusts(peer.Addr()) {
		return peer
	}
	h, known := f.recent[peer]
	if !known {
		h, known = f.older[peer]
	}
	if !sent || known && h.Format == proxyproto.Simple { // other answers have no header, but could look like one
		if told, _, err := proxyproto.Parse(datagram); err == nil {
			h, known = told, true
		}
	}
	if !known || h.Local {
		return peer
	}
	return h.Client
}

// Bounds of watches.
const (
	maxWatches  = 16  // of a Relay
	maxKinds    = 256 // kinds of messages that a watch counts by themselves
	otherKindID = -2  // the ID of all other kinds
)

// MessageKind is a kind of a session's messages.
type MessageKind struct {
	From policy.Direction
	Mode codec.Mode
	ID   int // -1: the message has none; -2: all kinds beyond a bound
}

// MessageCount is the traffic of a kind.
type MessageCount struct {
	MessageKind
	stats.Traffic
}

// watch counts a session's messages by their kind, while an operator looks at the session.
type watch struct {
	entry *Entry
	kinds map[MessageKind]*stats.Traffic
}

// watches are a Relay's watches. Without one, a message costs one comparison.
type watches map[session.ID]*watch

// count counts a message of a session, if the session is watched.
func (w watches) count(id session.ID, from policy.Direction, m *codec.Message) {
	if len(w) == 0 {
		return
	}
	one := w[id]
	if one == nil {
		return
	}
	kind := MessageKind{from, m.Mode, -1}
	if m.HasID {
		kind.ID = int(m.ID)
	}
	traffic := one.kinds[kind]
	if traffic == nil && len(one.kinds) >= maxKinds {
		kind.ID = otherKindID
		traffic = one.kinds[kind]
	}
	if traffic == nil {
		traffic = new(stats.Traffic)
		one.kinds[kind] = traffic
	}
	traffic.Add(m)
}
