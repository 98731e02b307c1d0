package proxy

import (
	"net/netip"
	"sync"
	"time"

	"tidegate/codec"
	"tidegate/netio"
)

// Known finds the sessions of clients that say who they are as they come (codec.Identified): a second one of the same name
// at the same listener is refused, also on another loop. It has at most one entry a session. Its lock is held for the moment
// in which a session begins or ends.
type Known struct {
	mu       sync.Mutex
	sessions map[knownKey]SessionID
}

type knownKey struct {
	listener string
	identity uint64
}

// keyOf names a client, or reports that it says nothing of itself.
func (d *door) keyOf(conn codec.Conn) (k knownKey, ok bool) {
	c, ok := conn.(codec.Identified)
	if !ok || c.Identity() == 0 {
		return k, false
	}
	return knownKey{d.name, c.Identity()}, true
}

// isHere reports whether a client plays already, from another address. A session whose client has left does not count.
func (k *Known) isHere(d *door, conn codec.Conn) bool {
	key, ok := d.keyOf(conn)
	if !ok {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sessions[key] != 0
}

func (k *Known) add(p *pair) {
	key, ok := p.door.keyOf(p.client.conn)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sessions == nil {
		k.sessions = make(map[knownKey]SessionID)
	}
	k.sessions[key] = p.serial
}

// remove forgets a session whose client has left, unless another has come in its place. Once is enough.
func (k *Known) remove(p *pair) {
	key, ok := p.door.keyOf(p.client.conn)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sessions[key] == p.serial {
		delete(k.sessions, key)
	}
}

// refuseKnown tells a client that it is here already.
func (r *Relay) refuseKnown(now time.Time, d *door, w *way, s netio.Socket, from netip.AddrPort, datagram []byte) {
	r.drop(now, DropKnown, d, from, len(datagram), nil)
	if reply := w.protocol.Refuse(datagram, r.sockets.Buffer(), codec.AlreadyConnected); len(reply) > 0 {
		r.answer(now, d, s, from, datagram, reply)
	}
}
