// Package netio reads and writes UDP datagrams in batches. It delivers the frames of TCP streams as datagrams, too.
// It knows sockets, addresses and errors, but not the contents of datagrams: no protocol, no session, no policy.
//
// Start with Poller, which owns the sockets of one loop and the loop's wait. Every turn of a loop is the same:
//
//	for poller.Wait(deadline) == nil {
//		poller.Receive(handler) // the handler answers by Buffer and Send
//		poller.Flush()
//	}
//
// There are two backends with the same behavior and the same tests. On Linux, epoll_linux.go waits on all sockets at
// once and moves up to 64 datagrams in a system call. portable.go does the same over package net on every platform,
// with one goroutine for each socket. stream*.go have the streams.
package netio

import (
	"errors"
	"net/netip"
	"time"
)

// MaxDatagram is the size in bytes of the largest datagram sent or received.
const MaxDatagram = 4096

// Errors of the package. System errors are wrapped.
var (
	ErrClosed      = errors.New("poller closed")    // Wait, Listen, Dial after Close
	ErrRefused     = errors.New("port unreachable") // Handler.Failed: the peer's port is closed
	ErrUnreachable = errors.New("host unreachable") // Handler.Failed: there is no route to the peer
	ErrAddress     = errors.New("invalid address")  // Listen, Dial: the zero address
)

// Poller owns a loop's sockets and its wait. Only one goroutine may use it, except for Wake.
type Poller interface {
	// Listen opens a socket bound to addr. Port 0 means any free port, which Socket.Addr returns. An unspecified IPv6
	// address also accepts IPv4, with peer addresses in plain IPv4 form.
	Listen(addr netip.AddrPort, o SocketOptions) (Socket, error)
	// Dial opens a socket connected to an upstream. The upstream need not answer or exist.
	Dial(to netip.AddrPort, o SocketOptions) (Socket, error)
	// ListenStream opens a TCP listener. Its connections are Sockets with a Peer, and their Owner is at first the
	// listener's. Their frames arrive as datagrams.
	ListenStream(addr netip.AddrPort, o StreamOptions) (Socket, error)
	// DialStream opens a TCP connection without waiting for it. Datagrams sent meanwhile wait in its Backlog.
	DialStream(to netip.AddrPort, o StreamOptions) (Socket, error)
	// Wait blocks until there is input, a Wake, or the deadline. A zero deadline means none, and with a past one Wait
	// only polls. It may return early, and without epoll about a millisecond late. It returns nil in all these cases,
	// and ErrClosed after Close.
	Wait(deadline time.Time) error
	// Receive delivers the input from before the last Wait returned. It takes a bounded number of datagrams of each
	// socket, so that a flooded one cannot starve the others. If some remain, the next Wait returns at once. The handler
	// may call every method of the Poller and its sockets, except Wait and Receive.
	Receive(h Handler)
	// Buffer lends room for one outgoing datagram: length 0, capacity MaxDatagram. The caller may use it until Send.
	Buffer() []byte
	// Send queues a datagram. Datagrams of one socket leave in the order of Send. A datagram in Buffer's memory is not
	// copied; others are. A dialed socket ignores to. An unsent datagram is dropped and counted in Stats.
	Send(s Socket, to netip.AddrPort, datagram []byte)
	// Forward is Send for a datagram that Receive is delivering now. It is sent without a copy, so its bytes must not
	// change any more.
	Forward(s Socket, to netip.AddrPort, datagram []byte)
	// Flush sends all queued datagrams. A full batch is sent without it.
	Flush()
	// Wake makes the current or the next Wait return. Any goroutine may call it, also after Close.
	Wake()
	// Stats returns the totals of all sockets so far, including closed ones.
	Stats() Stats
	// Close closes all sockets, as Socket.Close does.
	Close() error
}

// Handler takes the input that Receive delivers.
type Handler interface {
	// Datagram takes one datagram that s received. The bytes are lent until it returns, and it may overwrite them. Empty
	// datagrams are delivered, but not datagrams longer than MaxDatagram.
	Datagram(s Socket, from netip.AddrPort, datagram []byte)
	// Failed reports that the peer of a dialed socket is unreachable: ErrRefused or ErrUnreachable. The socket stays
	// usable. Every such report arrives here, but at most one in each Receive. Windows reports none.
	//
	// For a dialed or accepted stream it reports once that the stream has ended or failed. Earlier frames have been
	// delivered before. The stream is closed when Failed returns.
	Failed(s Socket, err error)
}

// Socket is a UDP socket, a stream, or a listener for streams. It belongs to a Poller and its goroutine.
type Socket interface {
	// Addr is the address to which the socket is bound. A dialed stream in the portable backend has none.
	Addr() netip.AddrPort
	// Peer is the address that the socket was dialed to or accepted from. It is zero for a listening socket.
	Peer() netip.AddrPort
	// Owner is the value given to SetOwner, nil at first. With it a loop finds the session of a socket.
	Owner() any
	SetOwner(owner any)
	// Close sends the queued data, at the latest with the next Flush, and closes the socket. The handler gets no more
	// calls for it, and Send to it does nothing. A second Close does nothing. A closing listener also ends the
	// connections without a first frame, with ErrSilent.
	Close()
}

// endpoint is the part of a Socket that all backends share.
type endpoint struct {
	addr   netip.AddrPort
	peer   netip.AddrPort // zero for a listening socket
	owner  any
	closed bool
	failed bool // a failure is queued for the Handler
	ending bool // of a stream: its end has been reported to Handler.Failed, or will be
}

func (e *endpoint) Addr() netip.AddrPort { return e.addr }
func (e *endpoint) Peer() netip.AddrPort { return e.peer }
func (e *endpoint) Owner() any           { return e.owner }
func (e *endpoint) SetOwner(owner any)   { e.owner = owner }

func (e *endpoint) dialed() bool { return e.peer.IsValid() }

// unmap turns an IPv4-mapped IPv6 address into IPv4, so that a client has the same address at every socket.
func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
