package relay

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/record"
	"tidegate/proxy/relay/saved"
	"tidegate/session"
)

// TakeCopies takes a batch of a predecessor's pre-copy whose moment was at, before Import. It restores the connections,
// and enters the sessions.
func (r *Relay) TakeCopies(at time.Time, batch []byte, from netio.Handover) error {
	if r.entering == nil {
		r.entering = BeginImport(r, at)
	}
	return r.entering.takeCopies(at, batch, from)
}

func (i *Importer) takeCopies(at time.Time, batch []byte, from netio.Handover) error {
	for rest := batch; len(rest) > 0; {
		after, n := binary.Uvarint(rest)
		if n <= 0 {
			return errCut
		}
		names, more, ok := cutPiece(rest[n:])
		if !ok {
			return errCut
		}
		if rest, more, ok = cutPiece(more); !ok {
			return errCut
		}
		sockets, found := namedSockets(nil, from, names)
		i.copied(rest, at.Add(min(time.Duration(after), time.Hour)), names, sockets, found)
		rest = more
	}
	return nil
}

// copied keeps a session with the names of its sockets, in place of its last copy. If all sockets were found, it also
// checks the session, restores its connections and enters it. An unreadable record is not kept: its session fails
// later, if the predecessor still has it.
func (i *Importer) copied(b []byte, at time.Time, names []byte, sockets []netio.Socket, found bool) {
	one := &sessionCopy{candidate: newCandidate(at, sockets), names: bytes.Clone(names)}
	v := &one.Session
	if record.Read(b, v) != nil || v.Is(saved.SessionKind, saved.Version) != nil || v.Calm != (v.Body != nil) {
		return
	}
	if i.copies == nil {
		i.copies = make(map[session.ID]*sessionCopy)
	}
	last := i.copies[session.ID(v.Serial)]
	if last != nil {
		last.leave(i.relay)
	}
	i.copies[session.ID(v.Serial)] = one
	if !found || one.check(i) != nil {
		return
	}
	if v.Body != nil {
		t, err := restoreCalm(i.relay, at, one.link, v.Body)
		if one.pending.restored = t; err != nil {
			return
		}
		if last == nil && i.played < mostRehearsals {
			i.played++
			rehearse(i.relay, at, one.link, v.Body)
		}
	}
	one.ready = true
	one.enterEarly(i)
}

const (
	// mostRehearsals bounds the sessions of a loop that are rehearsed: a long pass of copies leaves more sessions that
	// have changed meanwhile, and so a longer standstill.
	mostRehearsals = 1024
	// rehearsed are the datagrams of each side of a session in a rehearsal, at most.
	rehearsed = 8
)

// rehearse plays a message of each mode and the next second of a session with connections of its own, whose datagrams
// only its other side hears. A release that ends by them ends before the standstill: its predecessor has all players.
func rehearse(r *Relay, at time.Time, s *link, body []byte) {
	t, err := restoreCalm(r, at, s, body)
	if err != nil {
		return
	}
	sides := [...]codec.Conn{t.client.Conn, t.upstream.Conn}
	protocols := [...]codec.Protocol{s.protocol, s.route.speaks}
	var b [codec.MaxDatagram]byte
	now := at
	for k, from := range sides {
		to := sides[1-k]
		m := codec.Message{Payload: []byte{0xfe, 0}, HasID: protocols[k].Spec().IDs == codec.IDBeside}
		for m.Mode = range codec.Mode(codec.ModeCount) {
			_ = from.Send(now, m) // or it has no such mode
		}
		for range rehearsed {
			if datagram, ok := from.Transmit(now, b[:0]); ok {
				_ = to.Receive(now, datagram) // it has the form of the same protocol, or is refused
			}
			for _, ok := to.Poll(); ok; _, ok = to.Poll() {
			}
			if next := from.NextTimeout(); next.After(now) && next.Before(at.Add(time.Second)) {
				now = next
			}
			from.Advance(now)
		}
	}
}

// enterEarly enters a session before the standstill, unless it has a part that depends on the order of sessions. A
// session of the same client has ended since it was copied.
func (o *sessionCopy) enterEarly(i *Importer) {
	if o.OwnFace || o.Path != nil {
		return
	}
	if e := i.relay.table.peek(o.key()); e != nil {
		i.copies[e.Value.serial].leave(i.relay)
	}
	if o.OwnsID && !o.route.ids.claim(o.ID) {
		return // its last owner has ended, which the standstill tells
	}
	o.enter(i)
	o.entered = true
}

// leave undoes enterEarly. The sockets stay open: other records may name them.
func (o *sessionCopy) leave(r *Relay) {
	if !o.entered {
		return
	}
	o.entered = false
	s, v := o.link, &o.Session
	if v.OwnsID {
		s.route.ids.free(v.ID)
	}
	if v.Identity != 0 {
		r.presence.drop(presenceKey{s.listener.name, v.Identity}, s.serial)
	}
	if v.Known {
		r.known.remove(s.listener, v.Client)
	}
	delete(r.journal.causes, s.serial)
	r.guard.Discharge(&s.meter, v.Client.Addr())
	if s.edge != nil {
		s.listener.joins.withdraw(o.entry)
	}
	if s.life.hasJoined() {
		s.tally.Established--
	}
	s.tally.Opened--
	r.counters.Opened--
	s.listener.sessions--
	if s.socket != nil && s.socket.Owner() == o.entry {
		s.socket.SetOwner(nil)
	}
	if s.server != nil {
		s.route.pool.Release(s.server)
	}
	r.table.Remove(o.entry)
}

// keep removes all entered sessions that are not among those with the given IDs: they have ended or changed.
func (i *Importer) keep(unchanged func(yield func(session.ID) bool)) {
	for id := range unchanged {
		if one := i.copies[id]; one != nil {
			one.kept = true
		}
	}
	for _, one := range i.copies {
		if !one.kept {
			one.leave(i.relay)
		}
	}
}

// takeCopy takes a session out of the pre-copy.
func (i *Importer) takeCopy(id session.ID) (*sessionCopy, error) {
	one := i.copies[id]
	if one == nil {
		return nil, unusable("copy of the session", id)
	}
	delete(i.copies, id)
	return one, nil
}

// settle ends the import of an unchanged session. A name that was read before the standstill may have been another
// socket's: numbers of descriptors are used again. Then the session is checked and restored again.
func (o *sessionCopy) settle(i *Importer, sockets []netio.Socket) error {
	if o.ready && i.route(&o.Session) == o.route && slices.Equal(sockets, o.given) {
		if !o.entered {
			return o.finish(i, nil)
		}
		i.relay.table.MoveToEnd(o.entry) // sessions keep the predecessor's order
		return nil
	}
	o.leave(i.relay)
	v := o.Session
	o.candidate = newCandidate(o.at, sockets)
	o.Session = v
	return o.finish(i, o.check(i))
}
