package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// backlog is the number of arrivals of all sockets that wait for the Poller's goroutine. Readers block beyond it.
const backlog = 256

// portable is the Poller over package net. Each socket has a goroutine that reads, and each stream another one that
// writes. The Poller's own goroutine does all other work.
type portable struct {
	backlog      chan arrival
	first        arrival // taken by Wait, for Receive
	wake         chan struct{}
	timer        *time.Timer
	delay        moderation
	failures     failures
	stats        Stats
	out          [MaxDatagram]byte
	sockets      map[closable]struct{}
	readers      sync.WaitGroup
	writers      sync.WaitGroup // of streams
	clock        timers
	lingers      *timerQueue  // of closed streams
	readNotifier ReadNotifier // of this Receive
	closed       bool
}

// coarseTimer is how late Go's timers may be. Shorter batch delays would take as long, so there are none.
const coarseTimer = time.Millisecond

// arrival is an event from a socket's goroutine to the Poller's goroutine.
type arrival interface{ deliver(p *portable, h Handler) }

// closable is an open socket.
type closable interface {
	// shut closes the socket at once, also with data still queued.
	shut()
}

func newPortable(o Options) *portable {
	p := &portable{
		backlog: make(chan arrival, backlog),
		wake:    make(chan struct{}, 1),
		timer:   time.NewTimer(0),
		sockets: make(map[closable]struct{}),
	}
	if o.MaxBatchDelay >= coarseTimer {
		p.delay.max = o.MaxBatchDelay
	}
	p.timer.Stop()
	p.lingers = p.clock.add(lingerTime)
	return p
}

func (p *portable) Listen(addr netip.AddrPort, o SocketOptions) (Socket, error) {
	s, err := p.open(addr, o.withListenDefaults(), listenQuota, func(network string) (*net.UDPConn, error) {
		return net.ListenUDP(network, net.UDPAddrFromAddrPort(addr))
	})
	if err != nil {
		return nil, notListening(addr, err)
	}
	return s, nil
}

func (p *portable) Dial(to netip.AddrPort, o SocketOptions) (Socket, error) {
	s, err := p.open(to, o.withDialDefaults(), dialQuota, func(network string) (*net.UDPConn, error) {
		return net.DialUDP(network, localAddr(o), net.UDPAddrFromAddrPort(to))
	})
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", to, err)
	}
	s.peer = unmap(to)
	return s, nil
}

// localAddr returns the source address of a dialed socket. nil lets the system choose.
func localAddr(o SocketOptions) *net.UDPAddr {
	if !o.Local.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(o.Local, o.LocalPort))
}

// open makes a socket by calling connect with the network of addr, and starts its reader.
func (p *portable) open(addr netip.AddrPort, o SocketOptions, quota int,
	connect func(network string) (*net.UDPConn, error)) (*portableSocket, error) {
	switch {
	case p.closed:
		return nil, ErrClosed
	case !addr.IsValid():
		return nil, ErrAddress
	case o.ReusePort || o.DontFragment || o.Sources.IsValid() || o.TransparentSource.IsValid():
		return nil, errors.ErrUnsupported
	}
	conn, err := connect(network("udp", addr))
	if err != nil {
		return nil, err
	}
	if err := setBuffers(conn, o); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s := newPortableSocket(p, conn, quota)
	s.answerFromUsedAddress()
	p.sockets[s] = struct{}{}
	p.readers.Go(s.read)
	return s, nil
}

// network returns package net's name of a protocol for an address. An unspecified IPv6 address has both families.
func network(protocol string, addr netip.AddrPort) string {
	if addr.Addr().Unmap().Is4() {
		return protocol + "4"
	}
	return protocol
}

func setBuffers(conn *net.UDPConn, o SocketOptions) error {
	if o.ReceiveBuffer > 0 {
		if err := setReadBuffer(conn, o.ReceiveBuffer); err != nil {
			return err
		}
	}
	if o.SendBuffer > 0 {
		return conn.SetWriteBuffer(o.SendBuffer)
	}
	return nil
}

func (p *portable) Wait(deadline time.Time) error {
	if p.closed {
		return ErrClosed
	}
	if d := p.delay.next(deadline); d > 0 {
		p.stats.Delays++
		time.Sleep(d)
	}
	if p.first != nil || len(p.failures) > 0 {
		return nil
	}
	p.clock.beforePoll()
	expired := p.arm(p.clock.earlier(deadline))
	select {
	case p.first = <-p.backlog:
	case <-p.wake:
	case <-expired:
	}
	return nil
}

// arm returns a channel for the deadline, or nil for none. The select may see the deadline before the backlog.
// Nothing is lost then, because Receive takes the whole backlog.
func (p *portable) arm(deadline time.Time) <-chan time.Time {
	if deadline.IsZero() {
		return nil
	}
	p.timer.Reset(time.Until(deadline))
	return p.timer.C
}

func (p *portable) Receive(h Handler) {
	p.readNotifier = readNotifierOf(h)
	if p.first != nil {
		a := p.first
		p.first = nil
		a.deliver(p, h)
	}
	for range len(p.backlog) {
		(<-p.backlog).deliver(p, h)
	}
	p.clock.fire()
	p.failures.deliver(h)
}

// deliver hands the datagram or its error to h, and returns the room to the reader.
func (d *inDatagram) deliver(p *portable, h Handler) {
	s := d.socket
	switch {
	case s.closed:
		return
	case d.err != nil:
		f := classify(d.err)
		p.stats.countReceive(f)
		p.failures.add(s, &s.endpoint, f)
	case d.n > MaxDatagram:
		p.stats.countReceive(tooLarge)
	default:
		p.delay.handled++
		p.stats.In.add(1, d.n)
		p.readNotifier.AfterRead()
		h.Datagram(s.LocalSocket(d.at), unmap(d.from), d.bytes[:d.n])
	}
	s.free <- d
}

func (p *portable) Buffer() []byte { return p.out[:0] }

func (p *portable) Send(s Socket, to netip.AddrPort, datagram []byte) {
	if stream, ok := s.(*portableStream); ok {
		stream.send(datagram)
		return
	}
	socket, ok := s.(*portableSocket)
	var source []byte
	if local, is := s.(*localSocket); is {
		socket, ok = local.of.listener.(*portableSocket)
		source = local.source
	}
	if !ok || socket.closed { // otherwise: a listener for streams, which sends nothing
		return
	}
	if len(datagram) > MaxDatagram {
		p.stats.countSend(tooLarge, 1)
		return
	}
	if err := socket.write(to, source, datagram); err != nil {
		f := classify(err)
		p.stats.countSend(f, 1)
		p.failures.add(socket, &socket.endpoint, f)
		return
	}
	p.stats.Out.add(1, len(datagram))
}

// Forward is the same as Send, which does not copy here either.
func (p *portable) Forward(s Socket, to netip.AddrPort, datagram []byte) { p.Send(s, to, datagram) }

// Flush does nothing, because Send sends at once.
func (p *portable) Flush() {}

func (p *portable) Wake() {
	select {
	case p.wake <- struct{}{}:
	default: // a wake is already pending
	}
}

func (p *portable) Stats() Stats { return p.stats }

// closeTime bounds the time of Close for writing queued data of streams.
const closeTime = 200 * time.Millisecond

func (p *portable) Close() error {
	p.closed = true
	for s := range p.sockets {
		if stream, ok := s.(*portableStream); ok && stream.sent {
			stream.out.finishWithin(closeTime)
		} else {
			s.shut()
		}
	}
	p.writers.Wait()
	for s := range p.sockets {
		s.shut()
	}
	p.readers.Wait()
	for len(p.backlog) > 0 {
		if a, ok := (<-p.backlog).(*accepted); ok && a.err == nil {
			_ = a.conn.Close()
		}
	}
	return nil
}

// Quotas bound a socket's datagrams in the backlog, so that a flooded socket cannot fill it.
const (
	listenQuota = 64
	dialQuota   = 2
)

// inDatagram is room for one incoming datagram. It circulates from the socket's free list to its reader, through the
// backlog to the Poller, and back.
type inDatagram struct {
	socket *portableSocket
	from   netip.AddrPort
	at     netip.Addr // destination, if the socket knows it
	n      int
	err    error
	bytes  [MaxDatagram + 1]byte // one more byte, to detect datagrams that are too long
}

// portableSocket is a Socket over package net.
type portableSocket struct {
	endpoint
	poller *portable
	conn   *net.UDPConn
	free   chan *inDatagram
	done   chan struct{} // closed by Close
	locals *localSockets // of a wildcard listener; nil: none
}

func newPortableSocket(p *portable, conn *net.UDPConn, quota int) *portableSocket {
	s := &portableSocket{
		endpoint: endpoint{addr: unmap(conn.LocalAddr().(*net.UDPAddr).AddrPort())},
		poller:   p,
		conn:     conn,
		free:     make(chan *inDatagram, quota),
		done:     make(chan struct{}),
	}
	for range quota {
		s.free <- &inDatagram{socket: s}
	}
	return s
}

// read is the socket's goroutine. It ends when the socket is closed.
func (s *portableSocket) read() {
	control := make([]byte, localRoom)
	for {
		var d *inDatagram
		select {
		case d = <-s.free:
		case <-s.done:
			return
		}
		s.receive(d, control)
		if errors.Is(d.err, net.ErrClosed) {
			return
		}
		select {
		case s.poller.backlog <- d:
		case <-s.done:
			return
		}
	}
}

// write sends a datagram. source is the control message with its source address, or nil.
func (s *portableSocket) write(to netip.AddrPort, source, datagram []byte) (err error) {
	if source != nil {
		if _, _, err = s.conn.WriteMsgUDPAddrPort(datagram, source, to); !refusesSource(err) {
			return err
		}
		// The question was a broadcast's, whose address sends nothing. So the system chooses.
	}
	switch {
	case s.dialed():
		_, err = s.conn.Write(datagram)
	default:
		_, err = s.conn.WriteToUDPAddrPort(datagram, to)
	}
	return err
}

func (s *portableSocket) Close() {
	if s.closed {
		return
	}
	s.closed = true
	close(s.done)
	// The error does not matter: nothing is lost, and the socket is closed in any case.
	_ = s.conn.Close()
	delete(s.poller.sockets, s)
}

func (s *portableSocket) shut() { s.Close() }

// SyscallConn implements syscall.Conn for special kernel calls on a socket.
func (s *portableSocket) SyscallConn() (syscall.RawConn, error) { return s.conn.SyscallConn() }

// answerFromUsedAddress makes a wildcard listener answer from the address that the peer used, where the system tells
// it.
func (s *portableSocket) answerFromUsedAddress() {
	if s.addr.Addr().IsUnspecified() && askLocal(s.conn) == nil {
		s.locals = newLocalSockets(s, &s.endpoint)
	}
}

// LocalSocket implements LocalSockets.
func (s *portableSocket) LocalSocket(at netip.Addr) Socket {
	if s.locals == nil {
		return s
	}
	return s.locals.socketOf(s.addr, at)
}

// receive reads a datagram into d. control is room for its control messages.
func (s *portableSocket) receive(d *inDatagram, control []byte) {
	if s.locals == nil {
		d.n, d.from, d.err = s.conn.ReadFromUDPAddrPort(d.bytes[:])
		return
	}
	var used int
	d.n, used, _, d.from, d.err = s.conn.ReadMsgUDPAddrPort(d.bytes[:], control)
	d.at = system.local(control[:used])
}
