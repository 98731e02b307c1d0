package netio

import "net/netip"

// answerFromUsedAddress makes a wildcard listener answer from the address that the peer used, where the system tells
// it.
func (s *portableSocket) answerFromUsedAddress() {
	if s.addr.Addr().IsUnspecified() && askLocal(s.conn) == nil {
		s.locals = newLocalSockets(s, &s.endpoint)
	}
}

// LocalSocket implements LocalSockets.
func (s *portableSocket) LocalSocket(at netip.Addr) Socket {
	if s.locals == nil {
		return s
	}
	return s.locals.socketOf(s.addr, at)
}

// receive reads a datagram into d. control is room for its control messages.
func (s *portableSocket) receive(d *inDatagram, control []byte) {
	if s.locals == nil {
		d.n, d.from, d.err = s.conn.ReadFromUDPAddrPort(d.bytes[:])
		return
	}
	var used int
	d.n, used, _, d.from, d.err = s.conn.ReadMsgUDPAddrPort(d.bytes[:], control)
	d.at = system.local(control[:used])
}
