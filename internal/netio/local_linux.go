package netio

import "net/netip"

// bindLocal gives a socket that will be dialed the address to send from, if there is one.
func bindLocal(fd, family int, local netip.Addr) error {
	if !local.IsValid() {
		return nil
	}
	from := netip.AddrPortFrom(local, 0)
	if familyOf(from) != family {
		return ErrAddress
	}
	return bind(fd, family, from)
}
