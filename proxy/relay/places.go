package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// patience protects a half-open session whose client has proved its address from new clients with proof. It is longer
// than an honest handshake with a server that answers.
const patience = 3 * time.Second

// youth protects a half-open session whose client has not proved its address from new clients without proof. It
// applies while only half-open places are short. Such clients repeat themselves, and find places when the burst of
// handshakes is over.
const youth = time.Second

// room reports why there is no place for a new client, or nil. When all places are taken, a half-open session makes
// room.
func (t sessionTable) room(now time.Time, from netip.AddrPort, proved bool) error {
	full := t.Room(from.Addr())
	if t.victim(now, full, from.Addr(), proved) != nil {
		return nil
	}
	return full
}

// victim returns the session that makes room for a new client, or nil. full is why the table has no room. The victim
// is the oldest session without proof of address. If there is none, a new client with proof takes the place of the
// oldest half-open session that is older than patience. An address that has too many sessions gets the place of its
// oldest relayed question that the server has answered. Established sessions are safe.
func (t sessionTable) victim(now time.Time, full error, from netip.Addr, proved bool) *Entry {
	if full == session.ErrAddress || full == session.ErrAddressFull {
		return t.Spare(from)
	}
	if full != session.ErrHalfOpen && full != session.ErrFull {
		return nil
	}
	if e := t.Eldest(false); e != nil {
		if !proved && full == session.ErrHalfOpen && now.Sub(e.Value.opened) < youth {
			return nil
		}
		return e
	}
	if e := t.Eldest(true); e != nil && proved && now.Sub(e.Value.opened) >= patience {
		return e
	}
	return nil
}

// evict ends a half-open session at once. It says goodbye to both sides, and does not wait for answers.
func (r *Relay) evict(now time.Time, e *Entry) {
	s := &e.Value
	r.counters.Evicted++
	if s.isRelayed() {
		r.endRelayed(now, e, stats.ByProxy, codec.ServerFull)
		return
	}
	r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.ServerFull})
	r.sockets.transmit(now, e, bothSides)
	s.client.Down, s.upstream.Down = true, true
	r.forget(now, e)
}

// outcome is the result of a new client's datagram.
type outcome uint8

const (
	turnedAway outcome = iota
	mayRepeat          // there is no place at present, and the client was not told so
	taken              // there is a session now
)

// add adds a session to the table. If necessary, a half-open session makes room. A session without a terminated part
// is relayed.
func (r *Relay) add(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	t *terminated) (*Entry, error) {
	proved := t != nil && entry.proof == codec.ProvedAccept
	if e := r.table.victim(now, r.table.Room(from.Addr()), from.Addr(), proved); e != nil {
		r.evict(now, e)
	}
	e, err := r.table.Add(session.Key{Listener: l.index, Client: from}, link{
		listener: l, route: l.route, protocol: entry.protocol, face: s, via: l.via(nil), serial: r.serials.next(),
		tally:  entry.tally,
		opened: now, heard: now, spared: r.stood, terminated: t,
	})
	if err != nil {
		return nil, err
	}
	l.sessions++
	r.counters.Opened++
	entry.tally.Opened++
	r.guard.Enroll(&e.Value.meter, from.Addr())
	return e, nil
}

// mustWait drops the datagram of a new client without proof if there will be a place soon. It notes that the client
// has asked.
func (r *Relay) mustWait(now time.Time, l *listener, from netip.AddrPort, size int, full error) bool {
	if full == nil {
		return false
	}
	reason, why := l.whyFull(r.draining, full)
	if reason != codec.ReasonNone {
		return false
	}
	r.guard.Asked(now, from)
	r.drops.add(now, dropped{why, l, from, size, full})
	return true
}

// refuse refuses a new client in its protocol. It returns false for a datagram that has no refusal, because it does
// not ask for a session. Most clients take a refusal as final. So refuse sends none where only half-open places are
// short. Such places are soon free again, and clients repeat themselves.
func (r *Relay) refuse(
	now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort, datagram []byte, full error,
) (refused bool, out outcome) {
	reason, why := l.whyFull(r.draining, full)
	said := reason
	if said == codec.ReasonNone {
		said = codec.ServerFull
	}
	reply := entry.protocol.Refuse(datagram, r.sockets.Buffer(), said)
	if len(reply) == 0 {
		return false, turnedAway
	}
	r.drops.add(now, dropped{why, l, from, len(datagram), full})
	if reason == codec.ReasonNone {
		return true, mayRepeat
	}
	r.sockets.answer(now, l, s, from, datagram, reply)
	return true, turnedAway
}

// whyFull returns the refusal of a new client without a place in the table, and the reason to drop its datagram.
// ReasonNone means that there will be a place soon, and no refusal.
func (l *listener) whyFull(draining bool, full error) (codec.Reason, stats.Drop) {
	switch {
	case draining, l.retired:
		return codec.ServerStopped, stats.DropClosing
	case full == session.ErrHalfOpen:
		return codec.ReasonNone, stats.DropHalfOpen
	case full == session.ErrAddress, full == session.ErrNetwork:
		return codec.ReasonNone, stats.DropHalfOpenSource
	case full == session.ErrAddressFull, full == session.ErrNetworkFull:
		return codec.ServerFull, stats.DropSourceFull
	}
	return codec.ServerFull, stats.DropTableFull
}
