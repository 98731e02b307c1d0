package netio

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// Quotas bound a socket's datagrams in the backlog, so that a flooded socket cannot fill it.
const (
	listenQuota = 64
	dialQuota   = 2
)

// inDatagram is room for one incoming datagram. It circulates from the socket's free list to its reader, through the
// backlog to the Poller, and back.
type inDatagram struct {
	socket *portableSocket
	from   netip.AddrPort
	at     netip.Addr // destination, if the socket knows it
	n      int
	err    error
	bytes  [MaxDatagram + 1]byte // one more byte, to detect datagrams that are too long
}

// portableSocket is a Socket over package net.
type portableSocket struct {
	endpoint
	poller *portable
	conn   *net.UDPConn
	free   chan *inDatagram
	done   chan struct{} // closed by Close
	locals *localSockets // of a wildcard listener; nil: none
}

func newPortableSocket(p *portable, conn *net.UDPConn, quota int) *portableSocket {
	s := &portableSocket{
		endpoint: endpoint{addr: unmap(conn.LocalAddr().(*net.UDPAddr).AddrPort())},
		poller:   p,
		conn:     conn,
		free:     make(chan *inDatagram, quota),
		done:     make(chan struct{}),
	}
	for range quota {
		s.free <- &inDatagram{socket: s}
	}
	return s
}

// read is the socket's goroutine. It ends when the socket is closed.
func (s *portableSocket) read() {
	control := make([]byte, localRoom)
	for {
		var d *inDatagram
		select {
		case d = <-s.free:
		case <-s.done:
			return
		}
		s.receive(d, control)
		if errors.Is(d.err, net.ErrClosed) {
			return
		}
		select {
		case s.poller.backlog <- d:
		case <-s.done:
			return
		}
	}
}

// write sends a datagram. source is the control message with its source address, or nil.
func (s *portableSocket) write(to netip.AddrPort, source, datagram []byte) (err error) {
	if source != nil {
		if _, _, err = s.conn.WriteMsgUDPAddrPort(datagram, source, to); err == nil {
			return nil
		}
		// The question was a broadcast's, whose address sends nothing. So the system chooses.
	}
	switch {
	case s.dialed():
		_, err = s.conn.Write(datagram)
	default:
		_, err = s.conn.WriteToUDPAddrPort(datagram, to)
	}
	return err
}

func (s *portableSocket) Close() {
	if s.closed {
		return
	}
	s.closed = true
	close(s.done)
	// The error does not matter: nothing is lost, and the socket is closed in any case.
	_ = s.conn.Close()
	delete(s.poller.sockets, s)
}

func (s *portableSocket) shut() { s.Close() }

// SyscallConn implements syscall.Conn for special kernel calls on a socket.
func (s *portableSocket) SyscallConn() (syscall.RawConn, error) { return s.conn.SyscallConn() }
