package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/netio"
)

// known finds the sessions of clients that say who they are as they come (codec.Identified): a second one of the same name
// at the same listener is refused. It has at most one entry a session. Loops share nothing, so each knows its own
// sessions only.
type known map[knownKey]*entry

type knownKey struct {
	listener int
	identity uint64
}

// keyOf names a client, or reports that it says nothing of itself.
func (d *door) keyOf(conn codec.Conn) (k knownKey, ok bool) {
	c, ok := conn.(codec.Identified)
	if !ok || c.Identity() == 0 {
		return k, false
	}
	return knownKey{d.index, c.Identity()}, true
}

// isHere reports whether a client plays already, from another address. A session whose client has left does not count.
func (k known) isHere(d *door, conn codec.Conn) bool {
	key, ok := d.keyOf(conn)
	if !ok {
		return false
	}
	e := k[key]
	return e != nil && e.Value.client.live()
}

func (k known) add(e *entry) {
	if key, ok := e.Value.door.keyOf(e.Value.client.conn); ok {
		k[key] = e
	}
}

// remove forgets a session, unless another has come in its place.
func (k known) remove(e *entry) {
	if key, ok := e.Value.door.keyOf(e.Value.client.conn); ok && k[key] == e {
		delete(k, key)
	}
}

// refuseKnown tells a client that it is here already.
func (r *Relay) refuseKnown(now time.Time, d *door, w *way, s netio.Socket, from netip.AddrPort, datagram []byte) {
	r.drop(now, DropKnown, d, from, len(datagram), nil)
	if reply := w.protocol.Refuse(datagram, r.sockets.Buffer(), codec.AlreadyConnected); len(reply) > 0 {
		r.answer(now, d, s, from, datagram, reply)
	}
}
