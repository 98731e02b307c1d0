package proxy

import (
	"net/netip"
	"sync"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

// Presence finds the sessions of clients that name themselves as they join (codec.Identity). A second client of the
// same name at the same listener is refused, also on another loop. Presence has at most one entry per session. Its
// lock is held only while a session begins or ends.
type Presence struct {
	mu       sync.Mutex
	sessions map[presenceKey]SessionID
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

// has reports whether a client already plays from another address. A session whose client has left does not count.
func (here *Presence) has(d *listener, conn codec.Conn) bool {
	key, ok := d.keyOf(conn)
	if !ok {
		return false
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	return here.sessions[key] != 0
}

func (here *Presence) add(p *session) {
	key, ok := p.listener.keyOf(p.client.Conn)
	if !ok {
		return
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	if here.sessions == nil {
		here.sessions = make(map[presenceKey]SessionID)
	}
	here.sessions[key] = p.serial
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
	if here.sessions[key] == p.serial {
		delete(here.sessions, key)
	}
}

// refusePresent tells a client that it is already connected.
func (o *outlet) refusePresent(now time.Time, d *listener, w *protocolEntry, s netio.Socket,
	from netip.AddrPort, datagram []byte) {
	o.drops.add(now, dropped{stats.DropKnown, d, from, len(datagram), nil})
	if reply := w.protocol.Refuse(datagram, o.Buffer(), codec.AlreadyConnected); len(reply) > 0 {
		o.answer(now, d, s, from, datagram, reply)
	}
}
