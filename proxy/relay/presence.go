package relay

import (
	"net/netip"
	"sync"
	"time"

	"tidegate/codec"
	"tidegate/session"
)

// Presence finds the sessions of clients that name themselves as they join (codec.Identity). A second client of the
// same name at the same listener is refused, also on another loop. Presence has at most one entry per session. Its
// lock is held only while a session begins or ends.
type Presence struct {
	mu       sync.Mutex
	sessions map[presenceKey]present
}

// present is the session of a client, and its address.
type present struct {
	session session.ID
	from    netip.AddrPort
	asked   time.Time // when a client of its host on another loop asked for its place first
}

const (
	// returnTime is how long a client of the same host waits for the end of a session on another loop. It is longer than
	// a goodbye takes to be believed.
	returnTime = 1500 * time.Millisecond
	// returnPause is the time after which such a client may wait again.
	returnPause = 10 * time.Second
)

// mayReturn reports whether a new client of a proved address may be the player of a session on another loop that has
// just left. That loop believes the goodbye within a moment. Until then the client hears nothing, so it asks again.
func (here *Presence) mayReturn(now time.Time, l *listener, from netip.Addr, conn codec.Conn, asking shard) bool {
	known, ok := here.find(l, conn)
	return ok && known.session.Shard(asking.of) != asking.index && known.from.Addr() == from && here.mayEnd(now, l, conn)
}

// mayEnd reports whether the session of a client's name may end soon, since its client may have left.
func (here *Presence) mayEnd(now time.Time, l *listener, conn codec.Conn) bool {
	key, _ := l.keyOf(conn)
	here.mu.Lock()
	defer here.mu.Unlock()
	p, ok := here.sessions[key]
	if !ok {
		return true
	}
	if now.Sub(p.asked) > returnPause {
		p.asked = now
		here.sessions[key] = p
	}
	return now.Sub(p.asked) < returnTime
}

type presenceKey struct {
	listener string
	identity uint64
}

// keyOf returns a client's key. It returns false if the client does not name itself.
func (l *listener) keyOf(conn codec.Conn) (k presenceKey, ok bool) {
	c, ok := conn.(codec.Identity)
	if !ok || c.Identity() == 0 {
		return k, false
	}
	return presenceKey{l.name, c.Identity()}, true
}

// find returns the session that a new client's identity has. A session whose client has left does not count.
func (here *Presence) find(l *listener, conn codec.Conn) (p present, ok bool) {
	key, ok := l.keyOf(conn)
	if !ok {
		return p, false
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	p, ok = here.sessions[key]
	return p, ok
}

// add records the session of a client that names itself.
func (here *Presence) add(s *link, from netip.AddrPort) {
	key, ok := s.listener.keyOf(s.client.Conn)
	if !ok {
		return
	}
	here.record(key, present{session: s.serial, from: from})
}

func (here *Presence) record(key presenceKey, p present) {
	here.mu.Lock()
	defer here.mu.Unlock()
	if here.sessions == nil {
		here.sessions = make(map[presenceKey]present)
	}
	here.sessions[key] = p
}

// has reports whether a session is the one of its client's name.
func (here *Presence) has(s *link) bool {
	key, ok := s.listener.keyOf(s.client.Conn)
	if !ok {
		return false
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	return here.sessions[key].session == s.serial
}

// len returns the number of clients that have named themselves.
func (here *Presence) len() int {
	here.mu.Lock()
	defer here.mu.Unlock()
	return len(here.sessions)
}

// remove forgets a session whose client has left, unless another session has taken its place. A second call does
// nothing.
func (here *Presence) remove(s *link) {
	if key, ok := s.listener.keyOf(s.client.Conn); ok {
		here.drop(key, s.serial)
	}
}

// drop forgets a client's name, if the given session has it.
func (here *Presence) drop(key presenceKey, session session.ID) {
	here.mu.Lock()
	defer here.mu.Unlock()
	if here.sessions[key].session == session {
		delete(here.sessions, key)
	}
}
