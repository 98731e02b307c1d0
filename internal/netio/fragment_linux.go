package netio

import "golang.org/x/sys/unix"

// forbidFragments says whether routers may fragment what a socket of the family sends.
func forbidFragments(fd, family int, forbidden bool) error {
	discover := unix.IP_PMTUDISC_DONT
	if forbidden {
		discover = unix.IP_PMTUDISC_PROBE // and let nothing but the MTU of our own interface hold a datagram back
	}
	if family == unix.AF_INET6 {
		if err := setOption(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, discover); err != nil {
			return err
		}
	}
	return setOption(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, discover) // an IPv6 socket has it, for the IPv4 it carries
}

// AllowFragments implements FragmentControl.
func (s *epollSocket) AllowFragments() error {
	err := forbidFragments(s.fd, s.family, false)
	s.dontFragment = s.dontFragment && err != nil
	return err
}
