package proxy

import (
	"net/netip"
	"sync"

	"tidegate/codec"
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
	session SessionID
	from    netip.AddrPort
}

type presenceKey struct {
	listener string
	identity uint64
}

// keyOf returns a client's key. It returns false if the client does not name itself.
func (d *listener) keyOf(conn codec.Conn) (k presenceKey, ok bool) {
	c, ok := conn.(codec.Identity)
	if !ok || c.Identity() == 0 {
		return k, false
	}
	return presenceKey{d.name, c.Identity()}, true
}

// find returns the session that a new client's identity has. A session whose client has left does not count.
func (here *Presence) find(d *listener, conn codec.Conn) (p present, ok bool) {
	key, ok := d.keyOf(conn)
	if !ok {
		return p, false
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	p, ok = here.sessions[key]
	return p, ok
}

// add records the session of a client that names itself.
func (here *Presence) add(p *session, from netip.AddrPort) {
	key, ok := p.listener.keyOf(p.client.Conn)
	if !ok {
		return
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	if here.sessions == nil {
		here.sessions = make(map[presenceKey]present)
	}
	here.sessions[key] = present{p.serial, from}
}

// remove forgets a session whose client has left, unless another session has taken its place. A second call does
// nothing.
func (here *Presence) remove(p *session) {
	key, ok := p.listener.keyOf(p.client.Conn)
	if !ok {
		return
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	if here.sessions[key].session == p.serial {
		delete(here.sessions, key)
	}
}
