package netio

import (
	"net/netip"
	"os"
)

// AcceptedStream is a stream that a listener has accepted. A handler calls AwaitHello for a frame that does not
// complete the client's first request. The stream then still ends with ErrSilent after HelloTimeout, unless a later
// frame comes without AwaitHello.
type AcceptedStream interface {
	Socket
	AwaitHello()
}

// LocalSocket is the Socket of datagrams to a wildcard listener, if the backend knows their destination. Its
// datagrams leave from the address that the peer used. Its owner is the listener's, and Close does nothing.
type LocalSocket interface {
	Socket
	// Listener returns the opened socket.
	Listener() Socket
}

// ListenerOf returns the opened socket of a Socket that a handler was given.
func ListenerOf(s Socket) Socket {
	if f, ok := s.(LocalSocket); ok {
		return f.Listener()
	}
	return s
}

// DrainNotifier may be implemented by a Handler. The portable backend does not call it. A loop without this call for
// some time is overloaded.
type DrainNotifier interface {
	// InputDrained is called at the end of each Receive that has emptied the listening UDP sockets.
	InputDrained()
}

// ReadNotifier may be implemented by a Handler that keeps a clock.
type ReadNotifier interface {
	// AfterRead is called after reads, before their datagrams are delivered, because the process may have paused before.
	// Each read of a listening socket or a stream calls it, and some reads of dialed sockets.
	AfterRead()
}

// noNotifier is the ReadNotifier of a Handler without one.
type noNotifier struct{}

func (noNotifier) AfterRead() {}

// readNotifierOf returns the Handler's ReadNotifier.
func readNotifierOf(h Handler) ReadNotifier {
	if l, ok := h.(ReadNotifier); ok {
		return l
	}
	return noNotifier{}
}

// DropReporter may be implemented by a Handler that refuses datagrams, so that a flood of them costs less.
type DropReporter interface {
	// Refused returns the number of datagrams that the Handler has refused in this Receive.
	Refused() int
}

// KernelDropCounter is a listening socket whose kernel counts dropped datagrams. Only Linux has it.
type KernelDropCounter interface {
	// KernelDrops returns the number of datagrams that the kernel has dropped since the socket was opened. It drops them
	// if its buffer is full or because of a filter. The counter wraps.
	KernelDrops() uint32
	// SetFiltered says whether a filter that does not count its drops stands before the socket from now on. Drops
	// meanwhile count as Stats.FilterDrops.
	SetFiltered(on bool)
}

// FragmentControl is a Socket with SocketOptions.DontFragment that can switch that option off.
type FragmentControl interface {
	Socket
	// AllowFragments lets routers fragment datagrams from now on.
	AllowFragments() error
}

// Handover is implemented by a Poller that can take over sockets from another process and pass them on. A service
// manager may have opened them, and the next release of the program continues with them. Only the epoll backend has
// it.
type Handover interface {
	// Adopt takes over a bound UDP socket. The caller keeps the file.
	Adopt(f *os.File, o SocketOptions) (Socket, error)
	// AdoptStream takes over a listening TCP socket. The caller keeps the file.
	AdoptStream(f *os.File, o StreamOptions) (Socket, error)
	// File returns a copy of a listening socket's descriptor, for another process.
	File(s Socket) (*os.File, error)
	// ConnectPeer opens a connected socket for one peer of a listening UDP socket or LocalSocket, with the same address
	// and Owner. From then on the kernel delivers that peer's datagrams to it. Datagrams of other peers that arrive
	// before the connect go to h, as if s had received them. A Handler must not call it.
	ConnectPeer(s Socket, peer netip.AddrPort, h Handler) (Socket, error)
	// StopReceiving ends input to a listening socket. A UDP socket can still send, and be closed. A TCP socket is
	// closed, so that only its copies accept. Its connections continue.
	StopReceiving(s Socket)
}
