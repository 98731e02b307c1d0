package proxy

import (
	"errors"
	"net/netip"

	"tidegate/netio"
)

// The simulated networks have no streams.

func (n *relayNode) DialStream(netip.AddrPort, netio.StreamOptions) (netio.Socket, error) {
	return nil, errors.ErrUnsupported
}

func (p *pipe) DialStream(netip.AddrPort, netio.StreamOptions) (netio.Socket, error) {
	return nil, errors.ErrUnsupported
}
