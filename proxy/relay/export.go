package relay

import (
	"sync"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/record"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/relay/saved"
)

// BeginExport writes all datagrams that may leave, and parks the others. No input may follow before the last record.
// The caller then flushes the sockets. copied reports that the importer has the last pre-copy. naming names the
// sockets.
func BeginExport(r *Relay, now time.Time, copied bool, naming netio.Handover) *Exporter {
	r.Flush(now)
	x := &Exporter{
		relay: r, now: now, copied: copied, naming: naming,
		places: make(map[*Entry]int), closing: make(map[*Entry][]*closingConn),
	}
	for _, p := range r.paths.blocked {
		r.sockets.parkLine(now, p)
	}
	for _, s := range r.waiting.seekers {
		for _, l := range []*line{&s.held, &s.new} {
			for _, e := range l.all() {
				x.places[e] = len(x.places) + 1
			}
		}
	}
	for _, c := range r.closing.list {
		if !c.over {
			x.closing[c.of] = append(x.closing[c.of], c)
		}
	}
	return x
}

// sockets returns the sockets that only this session has, in the order in which an importer takes them: the one to the
// client, the one to the server, earlier ones to the server, and those of closing connections.
func (x *Exporter) sockets(e *Entry) []netio.Socket {
	s := &e.Value
	var all []netio.Socket
	if face := s.home(); s.isOwn(face) {
		all = append(all, face)
	}
	if s.socket != nil {
		all = append(all, s.socket)
	}
	if s.terminated != nil && s.earlier != nil {
		all = append(all, s.earlier.sockets...)
	}
	for _, c := range x.closing[e] {
		all = append(all, c.socket)
	}
	return all
}

// names returns the names of a session's own sockets.
func (x *Exporter) names(e *Entry) (b []byte) {
	if x.naming == nil {
		return nil
	}
	for _, s := range x.sockets(e) {
		b = x.naming.AppendName(b, s)
	}
	return b
}

// session appends the record of a session. It changes nothing that a peer or an operator can notice. It is safe for
// concurrent use with different sessions.
func (x *Exporter) session(e *Entry, b []byte) []byte {
	s := &e.Value
	s.spare(x.relay.stood)
	room := exportRooms.Get().(*exportRoom)
	defer exportRooms.Put(room)
	v := &room.session
	*v = saved.Session{
		Head:     record.Head{Kind: saved.SessionKind, Version: saved.Version},
		Listener: s.listener.addr, Stream: s.listener.stream, Client: e.Key.Client, Route: s.route.Name,
		Protocol: s.protocol.Spec().Name, Serial: uint64(s.serial),
		OwnFace: s.isOwn(s.home()), HasSocket: s.socket != nil, Preamble: savePreamble(s.preamble),
		Meter: x.meter(&s.meter), Opened: record.MomentOf(x.now, s.at(s.opened)),
		Heard: record.MomentOf(x.now, s.at(s.heard)), Tries: s.tries, Refused: s.refused,
		Established: s.life.hasJoined(), Answered: s.answered,
		Full: x.relay.table.IsEstablished(e), Known: s.isKnown(), Cause: x.relay.journal.causes[s.serial],
	}
	if face := s.home(); !v.OwnFace && face != s.listener.socket {
		v.Local = face.Addr().Addr()
	}
	if s.refused > 0 {
		v.RefusedFrom = record.MomentOf(x.now, x.relay.born.Add(s.refusedFrom))
	}
	v.Via = saveProxy(s.via)
	if s.server != nil {
		v.Server = s.server.Addr
	}
	if s.path != nil {
		v.Path = x.path(e)
	}
	switch {
	case s.isRelayed():
		if s.gate != codec.GateOpen {
			v.Gate = &s.gate
		}
		if s.edge != nil {
			v.Edge = saveEdge(x.now, s)
		}
		x.relay.offload.review(x.now, e)
	case s.isPending():
		v.ID, v.OwnsID, v.Identity, v.Calm = s.id, s.origin == ownID, s.pending.identity, true
		v.Body, v.Age = s.pending.body, x.now.Sub(s.pending.at)
	default:
		x.facts(e, v)
		x.body(e, room)
	}
	v.FromClient, v.FromServer = s.fromClient, s.fromServer
	return record.Append(b, v)
}

// exportRoom is the memory for the records of a session, which the next session uses again: garbage would make the
// collector work while players wait.
type exportRoom struct {
	session                saved.Session
	terminated             saved.Terminated
	client, upstream, body []byte
}

var exportRooms = sync.Pool{New: func() any { return new(exportRoom) }}

func (x *Exporter) path(e *Entry) *saved.Path {
	p := e.Value.path
	v := &saved.Path{Source: p.source}
	if p.server != e.Value.server.Addr && p.window != nil { // the session's own path has no key
		v.Sent = x.sent(p)
	}
	for i := range p.parked.len() {
		if d := p.parked.at(i); d.of == e {
			v.Parked = append(v.Parked, d.bytes)
		}
	}
	return v
}

// sent returns the times of a path's last datagrams.
func (x *Exporter) sent(p *path) (all []record.Moment) {
	for _, at := range p.window.Times() {
		all = append(all, record.MomentOf(x.now, at))
	}
	return all
}

func (x *Exporter) meter(m *admission.Meter) saved.Meter {
	own, address, network := m.Buckets()
	v := saved.Meter{Own: x.buckets(own)}
	if address != nil {
		v.Address, v.Network = x.buckets(address), x.buckets(network)
	}
	return v
}

// buckets returns the times until which buckets are used up, or nil if all are full.
func (x *Exporter) buckets(buckets *admission.Buckets) (all []record.Moment) {
	for i, b := range buckets {
		if m := momentOfBucket(x.now, x.relay.guard.Start(), b); m != 0 {
			if all == nil {
				all = make([]record.Moment, len(buckets))
			}
			all[i] = m
		}
	}
	return all
}

// facts adds the fields of a terminated session that its body does not have.
func (x *Exporter) facts(e *Entry, v *saved.Session) {
	s := &e.Value
	v.ID, v.OwnsID = s.id, s.origin == ownID
	if c, ok := s.client.Conn.(codec.Identity); ok && x.relay.presence.has(s) {
		v.Identity = c.Identity()
	}
	v.Calm = v.Full && s.life == joined && s.isCalm() && len(x.closing[e]) == 0 && x.places[e] == 0
}

// body adds the body of a terminated session to its record.
func (x *Exporter) body(e *Entry, room *exportRoom) {
	s, now := &e.Value, x.now
	v := &room.terminated
	*v = saved.Terminated{
		Client: x.side(&s.client, &room.client), Upstream: x.side(&s.upstream, &room.upstream),
		DialBy: record.MomentOf(now, s.dialBy), Expires: record.MomentOf(now, s.expires),
		Hello: s.hello, KnownClients: s.knownClients, Rates: x.rates(s), Kept: s.kept,
		Trust:     saved.Trust{Trust: s.trust, Bucket: momentOfBucket(now, x.relay.sockets.allowance.Born(), s.trust.Bucket)},
		SampleDue: record.MomentOf(now, x.relay.samples.born.Add(s.sampleDue)),
		AskedAt:   record.MomentOf(now, x.relay.born.Add(s.askedAt)),
		Admitted:  s.origin != noID, Ending: s.life.isEnding(), Choked: s.choked, Ahead: s.life == asking,
		Searches: s.searches,
		Why:      s.why, Blame: s.blame, Place: x.places[e],
	}
	if s.earlier != nil {
		v.Earlier = &saved.Earlier{
			Sockets: len(s.earlier.sockets), Preamble: savePreamble(s.earlier.preamble), Back: s.earlier.back,
		}
	}
	if h := s.hold; h != nil {
		v.Hold = &saved.Hold{
			Since: record.MomentOf(now, h.since), Until: record.MomentOf(now, h.until), Phase: uint8(s.life - seeking),
			Next: record.MomentOf(now, h.next), To: h.to,
			Limit: record.MomentOf(now, h.departure.limit), Acked: record.MomentOf(now, h.departure.acked),
			Heard: record.MomentOf(now, h.departure.heard),
		}
		if h.ticket != nil {
			t := s.route.pool.SaveTicket(now, h.ticket)
			v.Hold.Ticket = &t
		}
	}
	for _, c := range x.closing[e] {
		v.Closing = append(v.Closing, saved.Closing{
			Conn: c.conn.Save(now, nil), Preamble: savePreamble(c.preamble), Until: record.MomentOf(now, c.until), Late: c.late,
		})
	}
	room.body = record.AppendAt(now, room.body[:0], v)
	room.session.Body = room.body
}

// side returns a side's part of a record. The connection's record is in room.
func (x *Exporter) side(s *side, room *[]byte) saved.Side {
	v := saved.Side{Up: s.up, Pressure: s.pressure, Sampled: s.sampled, Sender: s.Save()}
	if s.Conn != nil {
		*room = s.Conn.Save(x.now, (*room)[:0])
		v.Conn = *room
	}
	return v
}

// rates returns the state of the rules with a rate.
func (x *Exporter) rates(s *link) (all []record.Moment) {
	for _, at := range s.rates.UsedUp(x.relay.guard.Rules()) {
		if !at.After(x.now) {
			at = time.Time{}
		}
		all = append(all, record.MomentOf(x.now, at))
	}
	return all
}
