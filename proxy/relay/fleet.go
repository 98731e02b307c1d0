package relay

import (
	"time"

	"tidegate/internal/stray"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// fromFleet handles a client's datagram that arrived at another node. The session checks it as it checks a datagram
// that arrives here: its sender may be forged.
func (r *Relay) fromFleet(now time.Time, node string, key stray.Key, in *stray.Datagram) {
	l := listenerWith(in.Listener, r.listeners)
	if l == nil {
		return
	}
	r.drops.fate = stats.FateStray
	home := l.faceAt(in.Local)
	e := r.table.Get(now, session.Key{Listener: l.index, Client: in.Client})
	if e == nil {
		e = r.arrived(now, l, home, in.Client)
	}
	if e == nil {
		e = l.find(in.Client)
	}
	r.ways.at = node
	switch {
	case e != nil && e.Value.edge != nil:
		r.fromEdge(now, e, home, in.Client, in.Bytes)
	case e == nil:
		if r.ways.passAgain(key, in) {
			r.drops.has(stats.FateTaken)
		}
	case !e.Value.isRelayed():
		r.fromTerminated(now, e, home, in.Bytes)
	case r.drops.passes(now, l, in.Client, len(in.Bytes), r.guard.MayRelay(now, &e.Value.meter, len(in.Bytes))):
		r.passUp(now, e, in.Bytes)
	}
	r.ways.at = ""
	r.counters.Clients.Receive(in.Bytes, r.drops.fate)
}

// sendAnswer sends another node's datagram to a client whose datagrams arrive here.
func (r *Relay) sendAnswer(node string, key stray.Key, d *stray.Datagram) {
	carrier := r.ways.players.carrier.Load()
	if l := listenerWith(d.Listener, r.listeners); l != nil && carrier != nil && (*carrier).Has(node, key) {
		r.counters.Clients.Out.Count(d.Bytes)
		r.sockets.Send(l.faceAt(d.Local), d.Client, d.Bytes)
	}
}

// follow sends a session's further answers where its client's last accepted datagram has arrived.
func (r *Relay) follow(e *Entry) {
	s := &e.Value
	if l := s.listener; l.arriving != r.ways.at {
		l.arriving, l.movedAt = r.ways.at, s.heard
	}
	if r.ways.at == "" && s.node() == "" {
		return
	}
	if face := r.ways.face(s.home(), r.ways.at); face != s.face {
		switch {
		case s.isRelayed():
			r.offload.recall(e) // the kernel would answer from here
		case !s.isPending():
			s.resent = s.client.Conn.Stats().Resent
		}
		s.face = face
	}
}
