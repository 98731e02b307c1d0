// Package endpoint drives codec connections over real sockets: clients, servers, or both, on one goroutine. It needs no
// goroutine, timer or lock for a connection. The examples show a server and a client of each protocol.
//
// Start with Endpoint. A program opens listeners and dials clients, and then calls Run, or Turn in a loop of its own,
// such as a game's. The Endpoint gives the events of all connections to one function. Only Do and Wake may be called
// from other goroutines. The proxy has its own loop (package proxy).
package endpoint

import (
	"net/netip"
	"sync"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/session"
)

// Endpoint drives connections, each with a Value of type T. One goroutine uses it, except for Do and Wake.
type Endpoint[T any] struct {
	poller    netio.Poller
	options   Options[T]
	table     *session.Table[*Conn[T]]
	listeners int
	dialed    int
	dirty     []*Conn[T]   // connections that may have something to send
	spare     *codec.Event // memory for events; nil while in use
	now       time.Time
	leaving   bool // no client is accepted

	mu     sync.Mutex // guards posted
	posted []func()
}

// Conn is a connection of an Endpoint. Endpoint.Send and Endpoint.Disconnect are for most programs. The codec's own
// methods need Endpoint.Now, and outside of Options.Event also Endpoint.Touch.
type Conn[T any] struct {
	codec.Conn
	Value    T
	Listener *Listener // that accepted the connection; nil if it was dialed
	Number   uint16    // of an accepted connection, from 1 for each listener; wraps around

	socket    netio.Socket
	entry     *session.Entry[*Conn[T]]
	full      int // bytes that were queued when Send returned codec.ErrFull; 0: none since Writable
	stream    bool
	dirty     bool
	connected bool         // the connection has given Connected
	gone      bool         // the connection has given Disconnected
	reason    codec.Reason // of Disconnected
	removed   bool         // from the Endpoint
}

// Listener is a server of one protocol. It is the owner of its socket.
type Listener struct {
	protocol codec.Protocol
	socket   netio.Socket
	number   int // in the keys of its connections, from 1
	accepted uint16
	stream   bool
}

// Addr returns the address where the listener receives.
func (l *Listener) Addr() netip.AddrPort { return l.socket.Addr() }

// New returns an Endpoint without connections.
func New[T any](o Options[T]) (*Endpoint[T], error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	now := time.Now()
	return &Endpoint[T]{
		poller: poller, options: o, now: now,
		table: session.NewTable[*Conn[T]](session.Limits{Sessions: o.Limit, HalfOpen: o.Limit}, now),
	}, nil
}

// Close closes all sockets. Connections end without a goodbye.
func (e *Endpoint[T]) Close() error { return e.poller.Close() }

// Wake makes the current or else the next Turn return early. Any goroutine may call it.
func (e *Endpoint[T]) Wake() { e.poller.Wake() }

// Now returns the time of the current Turn, or of a later Dial.
func (e *Endpoint[T]) Now() time.Time { return e.now }

// Len returns the number of connections.
func (e *Endpoint[T]) Len() int { return e.table.Len() }

// Listen opens a server of a protocol.
func (e *Endpoint[T]) Listen(p codec.Protocol, at netip.AddrPort, o SocketOptions) (*Listener, error) {
	s, err := e.poller.Listen(at, o.netio())
	if err != nil {
		return nil, err
	}
	return e.listen(&Listener{protocol: p, socket: s}), nil
}

// ListenStream opens a server of a protocol over TCP.
func (e *Endpoint[T]) ListenStream(p codec.Protocol, at netip.AddrPort, o StreamOptions) (*Listener, error) {
	s, err := e.poller.ListenStream(at, o.netio())
	if err != nil {
		return nil, err
	}
	return e.listen(&Listener{protocol: p, socket: s, stream: true}), nil
}

func (e *Endpoint[T]) listen(l *Listener) *Listener {
	e.listeners++
	l.number = e.listeners
	l.socket.SetOwner(l)
	return l
}

// Dial connects a client to a server, which gets the Hello as far as the protocol can carry it. The connection begins
// with the next turn; the event Connected says that it is established. Connect waits for that.
func (e *Endpoint[T]) Dial(p codec.Protocol, to netip.AddrPort, hello codec.Hello, o SocketOptions) (*Conn[T], error) {
	s, err := e.poller.Dial(to, o.netio())
	if err != nil {
		return nil, err
	}
	return e.dial(p, to, hello, s, false)
}

// DialStream connects a client to a server over TCP.
func (e *Endpoint[T]) DialStream(p codec.Protocol, to netip.AddrPort, hello codec.Hello, o StreamOptions) (*Conn[T],
	error) {
	s, err := e.poller.DialStream(to, o.netio())
	if err != nil {
		return nil, err
	}
	return e.dial(p, to, hello, s, true)
}

func (e *Endpoint[T]) dial(p codec.Protocol, to netip.AddrPort, hello codec.Hello, s netio.Socket, stream bool) (
	*Conn[T], error) {
	hello.From = s
	e.now = time.Now() // the last Turn may be long ago, and the time that a client may need begins now
	c := &Conn[T]{Conn: p.Dial(e.now, to, hello), socket: s, stream: stream}
	e.dialed++
	// A dialed stream may not know its own address yet, so the key's number alone makes it unique.
	if err := e.add(session.Key{Listener: -e.dialed, Client: to}, c); err != nil {
		s.Close()
		return nil, err
	}
	s.SetOwner(c)
	e.settle(c)
	return c, nil
}

func (e *Endpoint[T]) add(key session.Key, c *Conn[T]) (err error) {
	c.entry, err = e.table.Add(key, c)
	return err
}

// Peer returns the address of the connection's peer.
func (c *Conn[T]) Peer() netip.AddrPort { return c.entry.Key.Client }

// Local returns the address of the connection's socket.
func (c *Conn[T]) Local() netip.AddrPort { return c.socket.Addr() }

// Stats returns the totals of the Endpoint's sockets.
func (e *Endpoint[T]) Stats() netio.Stats { return e.poller.Stats() }

// Touch tells the Endpoint that the connection may have something to send. It does nothing after Disconnected.
func (e *Endpoint[T]) Touch(c *Conn[T]) {
	if !c.gone {
		e.mark(c)
	}
}

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
