package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// localSocket is a wildcard listener at one of the machine's addresses. Its datagrams leave from that address. Its
// owner is the listener's, and Close does nothing.
type localSocket struct {
	endpoint
	of     *localSockets
	source []byte // control message
}

func (f *localSocket) Owner() any         { return f.of.endpoint.owner }
func (f *localSocket) SetOwner(owner any) { f.of.endpoint.owner = owner }
func (f *localSocket) Close()             {}

// Listener implements LocalSocket.
func (f *localSocket) Listener() Socket { return f.of.listener }

// maxLocalSockets bounds the local sockets of a listener. A machine can own a whole prefix, and strangers choose
// addresses of it. For addresses beyond the bound, the system chooses the source of answers.
const maxLocalSockets = 1024

// localSockets are the local sockets of one listener.
type localSockets struct {
	listener Socket
	endpoint *endpoint    // the listener's
	last     *localSocket // a machine mostly uses one
	all      map[netip.Addr]*localSocket
}

func newLocalSockets(listener Socket, e *endpoint) *localSockets {
	return &localSockets{listener: listener, endpoint: e, all: make(map[netip.Addr]*localSocket)}
}

// socketOf returns the local socket of an address. It implements demultiplexer, for which the sender does not matter.
func (f *localSockets) socketOf(_ netip.AddrPort, at netip.Addr) Socket {
	switch {
	case !at.IsValid():
		return f.listener
	case f.last != nil && f.last.addr.Addr() == at:
		return f.last
	}
	known := f.all[at]
	if known == nil {
		if len(f.all) >= maxLocalSockets {
			return f.listener
		}
		addr := netip.AddrPortFrom(at, f.endpoint.addr.Port())
		known = &localSocket{endpoint: endpoint{addr: addr}, of: f, source: system.appendSource(nil, at)}
		f.all[at] = known
	}
	f.last = known
	return known
}

// ErrNoSource says that every address of SocketOptions.Sources is in use for the dialed server.
var ErrNoSource = errors.New("no free source address")

// OwnAddresses returns the addresses of this machine's interfaces.
func OwnAddresses() (all []netip.Addr, err error) {
	known, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	for _, a := range known {
		if network, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all, nil
}

// maxHostBits bounds the bits of an address that distinguish sources. It is plenty for an IPv6 prefix.
const maxHostBits = 32

// usableSources returns the number of addresses in a prefix that can be a source. The first and the last address of a
// network have special meanings.
func usableSources(p netip.Prefix) uint64 {
	bits := min(p.Addr().BitLen()-p.Bits(), maxHostBits)
	if bits < 2 {
		return 1 << bits
	}
	return 1<<bits - 2
}

// nthSource returns the n-th usable address.
func nthSource(p netip.Prefix, n uint64) netip.Addr {
	if p.Addr().BitLen()-p.Bits() >= 2 {
		n++
	}
	if first := p.Masked().Addr(); first.Is4() {
		b := first.As4()
		addTo(b[:], n)
		return netip.AddrFrom4(b)
	}
	b := p.Masked().Addr().As16()
	addTo(b[:], n)
	return netip.AddrFrom16(b)
}

// addTo adds n to a big-endian number.
func addTo(number []byte, n uint64) {
	for i := len(number) - 1; n > 0; i-- {
		n += uint64(number[i])
		number[i] = byte(n)
		n >>= 8
	}
}
