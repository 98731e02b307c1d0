package netio

import (
	"net/netip"
	"time"
)

// Backend is an implementation of the I/O.
type Backend uint8

// The backends.
const (
	Auto     Backend = iota // Epoll if available, else Portable
	Epoll                   // epoll, recvmmsg and sendmmsg; Linux only
	Portable                // package net, everywhere
)

// String returns the name of the backend, as in the configuration.
func (b Backend) String() string { return [...]string{"auto", "epoll", "portable"}[b] }

// Options configure a Poller. The zero value is ready to use.
type Options struct {
	Backend Backend
	// MaxBatchDelay lets Wait sleep up to this long under a steady load of few datagrams a turn, so that the next turn
	// has more. It trades latency for CPU time. 0 is off, and so is less than a millisecond for Portable.
	MaxBatchDelay time.Duration
}

// SocketOptions configure one socket. The zero value is ready to use.
type SocketOptions struct {
	// Local is the address of this machine from which a dialed socket sends. The zero Addr lets the system choose. Its
	// family must be the peer's. With Sources, Local has no effect.
	Local netip.Addr
	// LocalPort is the port of Local from which a dialed socket with a descriptor of its own sends. 0 means any.
	LocalPort uint16
	// ReusePort lets several sockets of this process listen on one address. The kernel distributes the clients. The
	// portable backend returns errors.ErrUnsupported.
	ReusePort bool
	// DontFragment forbids routers to fragment the socket's datagrams, as path MTU discovery requires. The portable
	// backend returns errors.ErrUnsupported.
	DontFragment bool
	// Sources, if valid, gives each dialed socket its own source address of the prefix, all over one descriptor. The
	// prefix must be local to the machine (see CheckSources) and routed back from the peer. A socket gets only datagrams
	// from its peer. The portable backend returns errors.ErrUnsupported.
	Sources netip.Prefix
	// SourceKey selects one of Sources. Sockets with the same key and peer get the same address, or the next free one.
	SourceKey uint64
	// TransparentSource, if valid, is a foreign address from which a dialed socket sends. The socket receives the
	// answers if they are routed here (see CheckTransparent). The portable backend returns errors.ErrUnsupported.
	TransparentSource netip.AddrPort
	// Shared lets dialed sockets to different peers share descriptors. The portable backend ignores it.
	Shared bool
	// ReceiveBuffer and SendBuffer are the sizes of the kernel's buffers in bytes. 0 means the defaults of buffer.go. A
	// descriptor that dialed sockets share has sharedBuffers times ReceiveBuffer.
	ReceiveBuffer, SendBuffer int
}

// SharesPorts reports whether several Pollers of a backend can listen on one address (SocketOptions.ReusePort).
func SharesPorts(b Backend) bool { return b.Used() != Portable }

// New opens a Poller with a backend.
func New(o Options) (Poller, error) {
	if o.Backend == Portable {
		return newPortable(o), nil
	}
	return newNative(o)
}

// Used returns the backend that New opens for b on this platform.
func (b Backend) Used() Backend {
	if b == Portable {
		return Portable
	}
	return native
}
