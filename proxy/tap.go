package proxy

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/netio"
	"tidegate/internal/proxyproto"
	sessions "tidegate/session"
)

// tap stands between a Relay and its sockets while anybody captures, and copies what passes. At all other times there
// is none, and nothing asks for one but each turn of the loop.
type tap struct {
	Sockets
	table  sessionTable
	now    time.Time // of the loop's turn
	spools []*spool
	prefix []byte // scratch
}

// tapInto has a spool get what its filter wants.
func (o *outlet) tapInto(now time.Time, table sessionTable, s *spool) {
	if o.tap == nil {
		o.tap = &tap{Sockets: o.Sockets, table: table, now: now}
		o.Sockets = o.tap
	}
	o.tap.spools = append(o.tap.spools, s)
}

// untap ends that.
func (o *outlet) untap(s *spool) {
	if o.tap == nil {
		return
	}
	if o.tap.spools = slices.DeleteFunc(o.tap.spools, func(other *spool) bool { return other == s }); len(o.tap.spools) == 0 {
		o.Sockets, o.tap = o.tap.Sockets, nil
	}
}

// untapped are the loop's own sockets.
func (o *outlet) untapped() Sockets {
	if o.tap != nil {
		return o.tap.Sockets
	}
	return o.Sockets
}

// watches reports whether a session must not be forwarded by others, since someone captures it.
func (t *tap) watches(e *entry) bool {
	if t == nil {
		return false
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
	t.copy(s, &Captured{At: t.now, From: s.Addr(), To: to, Sent: true}, to, datagram)
}

// received is called before the Relay has the datagram, which it may overwrite.
func (t *tap) received(s netio.Socket, from netip.AddrPort, datagram []byte) {
	t.copy(s, &Captured{At: t.now, From: from, To: s.Addr()}, from, datagram)
}

func (t *tap) copy(s netio.Socket, c *Captured, peer netip.AddrPort, datagram []byte) {
	about := t.topic(s, peer, datagram, c.Sent)
	if !t.wanted(&about) {
		return
	}
	c.Upstream, c.Session, c.Stream = about.upstream, about.session, about.transport.Stream
	t.prefix = t.prefix[:0]
	if c.Stream {
		t.prefix = about.transport.Prefix.Append(t.prefix, len(datagram))
	}
	for _, spool := range t.spools {
		if about.chosenBy(spool.filter) {
			spool.put(c, t.prefix, datagram)
		}
	}
}

// wanted reports whether anybody's filter chooses the topic.
func (t *tap) wanted(about *topic) bool {
	return slices.ContainsFunc(t.spools, func(s *spool) bool { return about.chosenBy(s.filter) })
}

// topic is what a datagram is about.
type topic struct {
	transport Transport
	upstream  bool           // it is between us and a server
	client    netip.AddrPort // the zero AddrPort: no player's
	session   SessionID      // 0: none
	route     string         // empty: none, a check of an upstream's servers
	pool      string         // the upstream
}

func (about *topic) chosenBy(f *CaptureFilter) bool {
	return (f.Session == 0 || f.Session == about.session) &&
		(!f.Client.IsValid() || f.Client.Contains(about.client.Addr().Unmap().WithZone(""))) &&
		(f.Route == "" || f.Route == about.route) &&
		(f.Upstream == "" || f.Upstream == about.pool)
}

func (t *tap) topic(s netio.Socket, peer netip.AddrPort, datagram []byte, sent bool) topic {
	switch owner := s.Owner().(type) {
	case *listener:
		return t.topicAt(owner, owner.clientOf(peer, datagram, sent))
	case *entry:
		return topicOf(owner.Value.route, owner.Key.Client, owner.Value.serial)
	case *closingConn:
		return topicOf(owner.of.Value.route, owner.of.Key.Client, owner.of.Value.serial)
	case *pinged:
		return topicOf(owner.pinger.route, netip.AddrPort{}, 0)
	case *checked:
		pool := owner.checker.upstream
		return topic{transport: pool.Transport, upstream: true, pool: pool.Name}
	}
	return topic{} // of a socket that is nobody's yet
}

// topicOf is that of a datagram between us and a server, on behalf of a client or of none.
func topicOf(r *route, client netip.AddrPort, id SessionID) topic {
	pool := r.Upstream
	return topic{transport: pool.Transport, upstream: true, client: client, session: id, route: r.Name, pool: pool.Name}
}

// topicAt is that of a datagram between a client and a listener: of its session, or of none yet.
func (t *tap) topicAt(d *listener, client netip.AddrPort) topic {
	r, id := d.route, SessionID(0)
	if e := t.table.Get(sessions.Key{Listener: d.index, Client: client}); e != nil {
		r, id = e.Value.route, e.Value.serial
	}
	return topic{transport: d.transport, client: client, session: id, route: r.Name, pool: r.Upstream.Name}
}

// clientOf is whose a datagram between a listener and a peer is, where that may be a trusted proxy that says so, or
// has said so.
func (d *listener) clientOf(peer netip.AddrPort, datagram []byte, sent bool) netip.AddrPort {
	f := d.proxies
	if f == nil || !f.trusts(peer.Addr()) {
		return peer
	}
	h, known := f.recent[peer]
	if !known {
		h, known = f.older[peer]
	}
	if !sent || known && h.Format == proxyproto.Simple { // answers have no header else, and may look like one
		if told, _, err := proxyproto.Parse(datagram); err == nil {
			h, known = told, true
		}
	}
	if !known || h.Local {
		return peer
	}
	return h.Client
}
