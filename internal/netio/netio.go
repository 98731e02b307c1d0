// Package netio reads and writes UDP datagrams in batches, and the frames of TCP streams as if they were datagrams. It
// knows sockets, addresses and errors, and nothing of what the datagrams say: no protocol, no session, no policy.
//
// Start with Poller, which owns the sockets of one loop and the loop's wait. A loop's turn is always the same:
//
//	for poller.Wait(deadline) == nil {
//		poller.Receive(handler) // the handler answers by Buffer and Send
//		poller.Flush()
//	}
//
// There are two backends with the same behavior, and one table of tests for both. On Linux, epoll_linux.go waits on
// all sockets at once and moves up to 64 datagrams a system call; portable.go does the same over package net, one
// goroutine a socket, on every platform. Streams have their files beside these: framing.go, stream*.go.
package netio

import (
	"errors"
	"net/netip"
	"time"
)

// MaxDatagram is the size in bytes of the largest datagram sent or received.
const MaxDatagram = 4096

// Errors of the package. Those of the operating system are wrapped.
var (
	ErrClosed      = errors.New("poller closed")                  // Wait, Listen, Dial after Close
	ErrRefused     = errors.New("port unreachable")               // Handler.Failed: nobody listens at the peer
	ErrUnreachable = errors.New("host unreachable")               // Handler.Failed: no way to the peer
	ErrAddress     = errors.New("not an address to bind or dial") // Listen, Dial: the zero address
)

// Poller owns a loop's sockets and its wait. It is used by one goroutine, except for Wake.
type Poller interface {
	// Listen opens a socket bound to addr. Port 0 picks one, which Socket.Addr tells. An unspecified IPv6 address
	// takes IPv4 as well; the peers' addresses are plain IPv4 then.
	Listen(addr netip.AddrPort, o SocketOptions) (Socket, error)
	// Dial opens a socket connected to an upstream, which need not answer or exist.
	Dial(to netip.AddrPort, o SocketOptions) (Socket, error)
	// ListenStream opens a TCP listener. The connections that it accepts are Sockets with a Peer; their Owner is at first
	// the listener's. Their frames come as datagrams.
	ListenStream(addr netip.AddrPort, o StreamOptions) (Socket, error)
	// DialStream opens a TCP connection and does not wait for it: what is sent meanwhile waits in its Backlog.
	DialStream(to netip.AddrPort, o StreamOptions) (Socket, error)
	// Wait blocks until there is something to Receive, a Wake, or the deadline; the zero deadline is none, and a past
	// one only looks. It may return early, and about a millisecond late. It returns nil for all of these, and ErrClosed
	// after Close.
	Wait(deadline time.Time) error
	// Receive gives h what came in before the last Wait returned: a bounded number of datagrams of each socket, so that
	// a flooded one cannot starve the others. What remains makes the next Wait return at once. The handler may
	// call anything of the Poller and of its sockets but Wait and Receive.
	Receive(h Handler)
	// Buffer lends room for one outgoing datagram: length 0, capacity MaxDatagram. It is the caller's until Send.
	Buffer() []byte
	// Send queues a datagram. Those of one socket leave in the order of Send. The bytes are best what was appended to
	// Buffer; others are copied. A dialed socket ignores to. What cannot be sent is dropped and counted in Stats.
	Send(s Socket, to netip.AddrPort, datagram []byte)
	// Forward is Send for a datagram that Receive is just giving to the handler. Nobody may write to its bytes any more:
	// they need not be copied before they are sent.
	Forward(s Socket, to netip.AddrPort, datagram []byte)
	// Flush sends all that is queued. A full batch is flushed by itself.
	Flush()
	// Wake makes the current or else the next Wait return. Any goroutine may call it, also after Close.
	Wake()
	// Stats are the totals of all sockets so far, closed ones included.
	Stats() Stats
	// Close closes all sockets, as Socket.Close does.
	Close() error
}

// Handler takes what Receive has to give.
type Handler interface {
	// Datagram is one datagram that s received. The bytes are lent until it returns, and it may overwrite them. Empty
	// datagrams come too; those longer than MaxDatagram do not.
	Datagram(s Socket, from netip.AddrPort, datagram []byte)
	// Failed tells that the peer of a dialed socket cannot be reached: ErrRefused or ErrUnreachable. The socket stays
	// usable. It is told of each such answer, but once a Receive at most. Windows tells nothing.
	//
	// Of a stream, dialed or accepted, it tells once that it has ended, or why it cannot go on. The frames that came
	// before have been given by then. The stream is closed when Failed returns.
	Failed(s Socket, err error)
}

// Socket is one UDP socket, stream, or listener for streams, of a Poller, used by the same goroutine.
type Socket interface {
	// Addr is the address the socket is bound to. A stream that was dialed in the portable backend has none.
	Addr() netip.AddrPort
	// Peer is the address the socket was dialed to, or accepted from; the zero AddrPort of one that listens.
	Peer() netip.AddrPort
	// Owner is the value given to SetOwner: how a loop finds the session of a socket again. Nil at first.
	Owner() any
	SetOwner(owner any)
	// Close sends what is queued for the socket, at the latest with the next Flush, and closes it. The handler hears nothing more of it, and Send to it
	// does nothing. A second Close does nothing. A listener that is closed gives up, as silent, the
	// connections that have sent no frame yet.
	Close()
}

// AcceptedStream is a stream that a listener has accepted. A handler calls AwaitHello while it has a frame that settled nothing.
// The stream then ends as ErrSilent HelloTimeout after its start, unless a later frame comes without AwaitHello.
type AcceptedStream interface {
	Socket
	AwaitHello()
}

// LocalSocket is the Socket that a handler is given for what comes to a listener bound to all addresses of the machine, where the
// backend can tell them apart: what is sent by it leaves from the address that the peer used. Its owner is the listener's,
// and to close it does nothing.
type LocalSocket interface {
	Socket
	// Listener is the socket that was opened.
	Listener() Socket
}

// ListenerOf is the socket that was opened of one that a handler was given.
func ListenerOf(s Socket) Socket {
	if f, ok := s.(LocalSocket); ok {
		return f.Listener()
	}
	return s
}

// SharesPorts reports whether several Pollers of a backend may listen on one address (SocketOptions.ReusePort).
func SharesPorts(b Backend) bool { return b != Portable && nativeSharesPorts }

// New opens a Poller with the backend o asks for.
func New(o Options) (Poller, error) {
	if o.Backend == Portable {
		return newPortable(o), nil
	}
	return newNative(o)
}
