package netio

import (
	"net/netip"
)

// splitter finds whose a datagram is that came by a descriptor that several Sockets share.
type splitter interface {
	// socketOf returns nil for a datagram that is nobody's. at is the address it was sent to, if known.
	socketOf(from netip.AddrPort, at at) Socket
}

// face is what a listener that is bound to all addresses of the machine is at one of them: what is sent by it leaves from
// there. It has no life of its own: its owner is the listener's, and to close it does nothing.
type face struct {
	endpoint
	under  *epollSocket
	source []byte // control message
}

func (f *face) Owner() any         { return f.under.owner }
func (f *face) SetOwner(owner any) { f.under.owner = owner }
func (f *face) Close()             {}

// Listener implements LocalSocket.
func (f *face) Listener() Socket { return f.under }

// maxFaces bounds the faces of a listener. A machine can have a prefix of any length for its own, and strangers choose of
// it; the kernel chooses where answers from the rest leave from.
const maxFaces = 1024

// faces are those of one listener.
type faces struct {
	under *epollSocket
	last  *face // a machine mostly uses one
	all   map[at]*face
}

func newFaces(under *epollSocket) *faces { return &faces{under: under, all: make(map[at]*face)} }

func (f *faces) socketOf(_ netip.AddrPort, at at) Socket {
	switch {
	case !at.IsValid():
		return f.under
	case f.last != nil && f.last.addr.Addr() == at:
		return f.last
	}
	known := f.all[at]
	if known == nil {
		if len(f.all) >= maxFaces {
			return f.under
		}
		known = &face{
			endpoint: endpoint{addr: netip.AddrPortFrom(at, f.under.addr.Port())},
			under:    f.under, source: appendSource(nil, at),
		}
		f.all[at] = known
	}
	f.last = known
	return known
}

// lane is a dialed Socket that shares its descriptor with others.
type lane struct {
	endpoint
	hub     *hub
	control [sourceRoom]byte // says its own address
	length  uint8            // of control; 0: it has no address of its own
}

// source is the control message by which a lane's datagrams leave from its address; nil: it has none.
func (l *lane) source() []byte {
	if l.length == 0 {
		return nil
	}
	return l.control[:l.length]
}

// key names the lane among those of its hub.
func (l *lane) key() laneKey {
	if l.length == 0 {
		return keyOf(at{}, l.peer)
	}
	return keyOf(l.addr.Addr(), l.peer)
}

// laneKey names a lane among those of a descriptor. It has no padding, so that it is hashed at once.
type laneKey struct {
	at, peer [16]byte // at is zero where lanes have no addresses of their own
	port     [2]byte  // peer's
}

func keyOf(at at, peer netip.AddrPort) laneKey {
	k := laneKey{peer: peer.Addr().As16(), port: [2]byte{byte(peer.Port() >> 8), byte(peer.Port())}}
	if at.IsValid() {
		k.at = at.As16()
	}
	return k
}

func (l *lane) Close() {
	if l.closed {
		return
	}
	l.closed = true
	l.hub.leave(l)
}

// hub is a descriptor whose lanes are found by their peer and, where each has an address of its own, by that. What comes
// from elsewhere is dropped and counted.
type hub struct {
	*epollSocket
	lanes map[laneKey]*lane
	own   bool          // each lane has an address of its own
	left  func(l *lane) // called when a lane has closed
}

func (h *hub) socketOf(from netip.AddrPort, at at) Socket {
	if !h.own {
		at = netip.Addr{}
	}
	if l := h.lanes[keyOf(at, from)]; l != nil {
		return l
	}
	h.poller.stats.Strangers++
	return nil
}

// join opens a lane. Its key must be free.
func (h *hub) join(at at, peer netip.AddrPort) *lane {
	l := &lane{endpoint: endpoint{addr: h.addr, peer: peer}, hub: h}
	if at.IsValid() {
		l.addr = netip.AddrPortFrom(at, h.addr.Port())
		l.length = uint8(len(appendSource(l.control[:0], at)))
	}
	h.lanes[l.key()] = l
	return l
}

func (h *hub) leave(l *lane) {
	delete(h.lanes, l.key())
	h.left(l)
}
