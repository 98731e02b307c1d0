package netio

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// answerFromUsedAddress makes a wildcard listener answer from the address that the peer used.
func (s *epollSocket) answerFromUsedAddress() error {
	if !s.addr.Addr().IsUnspecified() {
		return nil
	}
	if s.family == unix.AF_INET6 {
		if err := setOption(s.fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1); err != nil {
			return err
		}
	}
	s.demux = newLocalSockets(s, &s.endpoint)
	return setOption(s.fd, unix.SOL_IP, unix.IP_PKTINFO, 1)
}

// LocalSocket implements LocalSockets.
func (s *epollSocket) LocalSocket(at netip.Addr) Socket {
	if f, ok := s.demux.(*localSockets); ok {
		return f.socketOf(s.addr, at)
	}
	return s
}
