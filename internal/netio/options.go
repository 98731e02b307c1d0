package netio

import (
	"net/netip"
	"time"
)

// Backend is a way to do the I/O.
type Backend uint8

// The backends.
const (
	Auto     Backend = iota // Epoll where there is one, else Portable
	Epoll                   // epoll, recvmmsg and sendmmsg; Linux only
	Portable                // package net, everywhere
)

// Options are those of a Poller. The zero value is ready to use.
type Options struct {
	Backend Backend
	// MaxBatchDelay lets Wait sleep up to this long after a turn with few datagrams, so that the next turn has more of
	// them. It trades latency for CPU: 1 ms halves the CPU of 20,000 datagrams a second. 0 is off.
	MaxBatchDelay time.Duration
}

// SocketOptions are those of one socket. The zero value is ready to use.
type SocketOptions struct {
	// Local is the address of this machine that a dialed socket sends from; the zero Addr leaves it to the system. It must
	// be of the peer's family. It does nothing beside Sources.
	Local netip.Addr
	// ReusePort lets several sockets of this process listen on one address, the kernel spreading the clients over
	// them. Not in the portable backend: errors.ErrUnsupported.
	ReusePort bool
	// SteerAmong is how many sockets share the address, if a client is to stay with one of them when more are opened there
	// (Handover.ConnectPeer); 0 or 1: whatever the kernel does. The first so many sockets of the address are those. Linux only.
	SteerAmong int
	// DontFragment forbids routers to fragment what the socket sends, as a search for the path's MTU needs. Not in the
	// portable backend: errors.ErrUnsupported.
	DontFragment bool
	// Sources, if valid, has each dialed socket take an address of its own from the prefix as its source, all by one
	// descriptor. The prefix must be local to the machine (see CheckSources) and routed back from the peer. Datagrams from
	// elsewhere than its peer do not reach a socket. Not in the portable backend: errors.ErrUnsupported.
	Sources netip.Prefix
	// SourceKey chooses among Sources: sockets of one key and one peer get the same address, or the next that is free.
	SourceKey uint64
	// TransparentSource, if valid, is the address of somebody else that a dialed socket sends from, and hears answers to if they are
	// routed here (see CheckTransparent). Not in the portable backend: errors.ErrUnsupported.
	TransparentSource netip.AddrPort
	// Shared lets dialed sockets to different peers share descriptors. It does nothing in the portable backend.
	Shared bool
	// ReceiveBuffer and SendBuffer are the kernel's buffers in bytes. 0 means the defaults of buffer.go. A descriptor that
	// dialed sockets share has sharedBuffers times ReceiveBuffer.
	ReceiveBuffer, SendBuffer int
}
