package netio

import "net/netip"

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
