package endpoint

import (
	"net/netip"

	"tidegate/codec"
	"tidegate/internal/netio"
)

// DefaultLimit is the largest number of connections of an Endpoint without a limit of its own.
const DefaultLimit = 200_000

// Options configure an Endpoint. All functions are called on the goroutine that turns.
type Options[T any] struct {
	// Event takes each event of each connection, except Asked. The event's memory is lent until Event returns. Event may
	// call all methods of the connection, and of the Endpoint except Turn, Run, Connect and Close.
	Event func(c *Conn[T], e *codec.Event)
	// Admit, if not nil, decides about each client that asks. The Asked event has the client's Hello. ReasonNone admits
	// the client. Another reason refuses it in the protocol's own words. Without Admit, every client may join.
	Admit func(c *Conn[T], e *codec.Event) codec.Reason
	// Writable, if not nil, is called once after Send has returned codec.ErrFull, when half of the queue is free again.
	Writable func(c *Conn[T])
	// Sent, if not nil, takes each datagram that a dialed connection sends. The bytes are lent until Sent returns.
	Sent func(c *Conn[T], datagram []byte)
	// Failed, if not nil, takes each error of a connection's datagram socket. The connection goes on until its time-out.
	Failed func(c *Conn[T], err error)
	// Limit is the largest number of connections; 0 means DefaultLimit. Further clients are not accepted.
	Limit int
}

// SocketOptions configure a UDP socket. The zero value is ready to use.
type SocketOptions struct {
	// Local is the address of this machine from which a dialed socket sends. The zero Addr lets the system choose.
	Local netip.Addr
	// Shared lets dialed connections to different peers share descriptors, where the system can. It saves descriptors.
	Shared bool
	// Sources, if valid, gives each dialed connection its own source address of the prefix, chosen by SourceKey. The
	// prefix must be local to the machine. Linux only.
	Sources   netip.Prefix
	SourceKey uint64
	// ReceiveBuffer and SendBuffer are the sizes of the kernel's buffers in bytes. 0 means 2 MiB for
	// listeners, and less for dialed connections.
	ReceiveBuffer, SendBuffer int
}

func (o SocketOptions) netio() netio.SocketOptions {
	return netio.SocketOptions{
		Local: o.Local, Shared: o.Shared, Sources: o.Sources, SourceKey: o.SourceKey,
		ReceiveBuffer: o.ReceiveBuffer, SendBuffer: o.SendBuffer,
	}
}

// StreamOptions configure the frames of a TCP connection.
type StreamOptions struct {
	// Prefix is the size in bytes of the length before each frame: 2 for Riptide 2.0, 4 for later versions.
	Prefix int
}

func (o StreamOptions) netio() netio.StreamOptions {
	return netio.StreamOptions{Prefix: netio.PrefixOf(o.Prefix)}
}
