package netio

import "net/netip"

// demultiplexer finds the Socket for a datagram of a descriptor that several Sockets share.
type demultiplexer interface {
	// socketOf returns nil for a datagram of an unknown peer. at is the destination address, if known.
	socketOf(from netip.AddrPort, at netip.Addr) Socket
}

// virtualSocket is a dialed Socket that shares its descriptor with others.
type virtualSocket struct {
	endpoint
	shared  *sharedSocket
	control [sourceRoom]byte // with the source address
	length  uint8            // of control; 0: no source address of its own
}

// source returns the control message with the source address, or nil.
func (l *virtualSocket) source() []byte {
	if l.length == 0 {
		return nil
	}
	return l.control[:l.length]
}

// key returns the key of the virtual socket in its shared socket.
func (l *virtualSocket) key() virtualKey {
	if l.length == 0 {
		return keyOf(netip.Addr{}, l.peer)
	}
	return keyOf(l.addr.Addr(), l.peer)
}

// virtualKey identifies a virtual socket of a descriptor. It has no padding, so hashing it is one step.
type virtualKey struct {
	at, peer [16]byte // at is zero if the members have no addresses of their own
	port     [2]byte  // of the peer
}

func keyOf(at netip.Addr, peer netip.AddrPort) virtualKey {
	k := virtualKey{peer: peer.Addr().As16(), port: [2]byte{byte(peer.Port() >> 8), byte(peer.Port())}}
	if at.IsValid() {
		k.at = at.As16()
	}
	return k
}

func (l *virtualSocket) Close() {
	if l.closed {
		return
	}
	l.closed = true
	l.shared.remove(l)
}

// sharedSocket is a descriptor whose members are found by their peer and, if they have one, by their own address.
// Datagrams from unknown peers are dropped and counted.
type sharedSocket struct {
	*epollSocket
	kind         sharedKind
	members      map[virtualKey]*virtualSocket
	ownAddresses bool                   // each member has its own address
	onClose      func(l *virtualSocket) // called after a member has closed
}

func (h *sharedSocket) socketOf(from netip.AddrPort, at netip.Addr) Socket {
	if !h.ownAddresses {
		at = netip.Addr{}
	}
	if l := h.members[keyOf(at, from)]; l != nil {
		return l
	}
	h.poller.stats.Strangers++
	return nil
}

// add opens a virtual socket. Its key must be free.
func (h *sharedSocket) add(at netip.Addr, peer netip.AddrPort) *virtualSocket {
	l := &virtualSocket{endpoint: endpoint{addr: h.addr, peer: peer}, shared: h}
	if at.IsValid() {
		l.addr = netip.AddrPortFrom(at, h.addr.Port())
		l.length = uint8(len(system.appendSource(l.control[:0], at)))
	}
	h.members[l.key()] = l
	return l
}

func (h *sharedSocket) remove(l *virtualSocket) {
	delete(h.members, l.key())
	h.onClose(l)
}
