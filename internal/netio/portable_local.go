package netio

import (
	"net"
	"net/netip"
)

// portableLocal is a wildcard listener at one of the machine's addresses, as localSocket is for epoll.
type portableLocal struct {
	endpoint
	listener *portableSocket
	source   []byte // control message
}

func (f *portableLocal) Owner() any         { return f.listener.owner }
func (f *portableLocal) SetOwner(owner any) { f.listener.owner = owner }
func (f *portableLocal) Close()             {}

// Listener implements LocalSocket.
func (f *portableLocal) Listener() Socket { return f.listener }

// maxPortableLocals bounds the local sockets of a listener: strangers choose addresses of the machine. For addresses
// beyond the bound, the system chooses the source of answers.
const maxPortableLocals = 1024

// answerFromUsedAddress makes a wildcard listener answer from the address that the peer used, where the system tells
// it.
func (s *portableSocket) answerFromUsedAddress() {
	if s.addr.Addr().IsUnspecified() && askLocal(s.conn) == nil {
		s.locals = make(map[netip.Addr]*portableLocal)
	}
}

// LocalSocket implements LocalSockets.
func (s *portableSocket) LocalSocket(at netip.Addr) Socket {
	known := s.locals[at]
	switch {
	case s.locals == nil || !at.IsValid():
		return s
	case known == nil && len(s.locals) >= maxPortableLocals:
		return s
	case known == nil:
		known = &portableLocal{
			endpoint: endpoint{addr: netip.AddrPortFrom(at, s.addr.Port())}, listener: s, source: appendSource(nil, at),
		}
		s.locals[at] = known
	}
	return known
}

// receive reads a datagram into d. control is room for its control messages.
func (s *portableSocket) receive(d *inDatagram, control []byte) {
	if s.locals == nil {
		d.n, d.from, d.err = s.conn.ReadFromUDPAddrPort(d.bytes[:])
		return
	}
	var used int
	d.n, used, _, d.from, d.err = s.conn.ReadMsgUDPAddrPort(d.bytes[:], control)
	d.at = localOf(control[:used])
}

// writeFrom sends a datagram with a control message.
func writeFrom(conn *net.UDPConn, source []byte, to netip.AddrPort, datagram []byte) error {
	_, _, err := conn.WriteMsgUDPAddrPort(datagram, source, to)
	return err
}
