package netio

import (
	"cmp"
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
	// ReceiveBuffer and SendBuffer are the sizes of the kernel's buffers in bytes. 0 means the defaults of options.go. A
	// descriptor that dialed sockets share has sharedBuffers times ReceiveBuffer.
	ReceiveBuffer, SendBuffer int
}

// Kernel buffer sizes are limits, not allocations: the kernel takes memory only for waiting datagrams. Linux charges
// about 768 bytes for a small datagram and 2,304 for a full one, and allows twice the configured size. Much larger
// buffers would turn overload into delay.
const (
	// listenBuffer is the size of both buffers of a listening socket.
	listenBuffer = 2 << 20
	// dialBuffer holds the data that one server sends before its loop reads. On Linux it has room for 910 full
	// datagrams. A RakNet server sends up to 512 at once. The usual default of 208 KiB has room for 92.
	dialBuffer = 1 << 20
	// sharedBuffers is the factor for the receive buffer of a descriptor that dialed sockets share.
	sharedBuffers = 16
	mostBuffer    = 1 << 30 // bytes, the largest size that a kernel accepts
)

// withListenDefaults fills in the defaults of a listening socket.
func (o SocketOptions) withListenDefaults() SocketOptions {
	o.ReceiveBuffer, o.SendBuffer = cmp.Or(o.ReceiveBuffer, listenBuffer), cmp.Or(o.SendBuffer, listenBuffer)
	return o
}

// withDialDefaults fills in the defaults of a dialed socket. It sends little at once, so the system's default send
// buffer is enough.
func (o SocketOptions) withDialDefaults() SocketOptions {
	o.ReceiveBuffer = cmp.Or(o.ReceiveBuffer, dialBuffer)
	return o
}

// forSharing enlarges the buffers for a descriptor that dialed sockets share.
func (o SocketOptions) forSharing() SocketOptions {
	o.ReceiveBuffer, o.SendBuffer = SharedBuffer(o.ReceiveBuffer), cmp.Or(o.SendBuffer, listenBuffer)
	return o
}

// SharedBuffer returns the receive buffer of a descriptor that dialed sockets with this ReceiveBuffer share.
func SharedBuffer(each int) int { return min(each, mostBuffer/sharedBuffers) * sharedBuffers }

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

// Foreseer may be implemented by a Handler whose memory for a datagram is best fetched for several at once.
type Foreseer interface {
	// Foresee announces that s has a datagram, which is delivered soon.
	Foresee(s Socket, from netip.AddrPort)
}

// foresight is the number of messages, or of dialed sockets, that are announced at once.
const foresight = 16

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
