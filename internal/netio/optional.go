package netio

import (
	"net/netip"
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

// LocalSockets is a wildcard listener that can make a LocalSocket before a datagram comes to the address.
type LocalSockets interface {
	Socket
	// LocalSocket returns the socket of a local address, or the listener itself if it makes none.
	LocalSocket(at netip.Addr) Socket
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

// Buffering is a stream that holds memory of its own.
type Buffering interface {
	Socket
	// Buffered returns the bytes of an unfinished incoming frame, and the bytes that wait for a slow peer.
	Buffered() (in, out int)
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
//
// Descriptors are numbers, and no os.File: Go's own poller would watch each file, and wake a thread for each datagram.
type Handover interface {
	// Adopt takes over a bound UDP socket. The caller keeps the descriptor.
	Adopt(fd int, o SocketOptions) (Socket, error)
	// AdoptStream takes over a listening TCP socket. The caller keeps the descriptor.
	AdoptStream(fd int, o StreamOptions) (Socket, error)
	// Copy returns a copy of a listening socket's descriptor, for another process and then CloseCopies.
	Copy(s Socket) (fd int, err error)
	// Give returns the state of further dialed UDP sockets, with copies of their descriptors for CloseCopies. They go
	// to another process before an Export, while this one goes on. first begins with the first socket. more reports that
	// there are others.
	Give(first bool) (state []byte, copies []int, more bool)
	// Take takes over sockets of a Give, before Import. It owns the descriptors, also after an error. Named knows them
	// from then on. A socket that the other process has closed since stays until CloseUnclaimed.
	Take(state []byte, descriptors []int) error
	// Export returns the state of all sockets except the listening ones, and their descriptors, which stay open. given
	// leaves out the sockets that the last Give has returned, and members of shared sockets: Named makes these again. The
	// caller must have called Flush, and must not use the Poller until it goes on as before or calls Leave.
	Export(given bool) (state []byte, descriptors []int)
	// Import continues with the sockets of an Export in another process. It owns the descriptors, also after an error.
	// Until the first Wait, the other process may still go on: Close only closes descriptors.
	// Their listeners must have been adopted before, with their Owner.
	Import(state []byte, descriptors []int) error
	// AppendName appends the name of an exported socket.
	AppendName(b []byte, s Socket) []byte
	// Named returns the socket with a name in the imported state, and the bytes after the name. It is nil if there is no
	// such socket.
	Named(b []byte) (s Socket, rest []byte)
	// CloseUnclaimed closes the imported sockets without an Owner. Named does not work any more.
	CloseUnclaimed()
	// Leave closes the descriptors, and leaves the connections to the process that has imported them.
	Leave()
}
