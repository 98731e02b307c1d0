package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// portableListener accepts TCP connections over package net in a goroutine.
type portableListener struct {
	endpoint
	poller   *portable
	options  StreamOptions
	listener *net.TCPListener
	open     int           // accepted and not yet shut
	hellos   *timerQueue   // of connections without a first frame
	greeted  hellos        // counts connections without a session
	done     chan struct{} // closed by shut
}

// accepted is a connection for the Poller's goroutine, or an error.
type accepted struct {
	listener *portableListener
	conn     *net.TCPConn
	err      error
}

func (p *portable) ListenStream(addr netip.AddrPort, o StreamOptions) (Socket, error) {
	o, err := p.checkStream(addr, o)
	if err != nil {
		return nil, fmt.Errorf("listen for streams on %s: %w", addr, err)
	}
	listener, err := net.ListenTCP(network("tcp", addr), net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return nil, fmt.Errorf("listen for streams on %s: %w", addr, err)
	}
	l := &portableListener{poller: p, options: o, listener: listener, done: make(chan struct{})}
	l.greeted = newHellos(o.Hellos)
	l.addr = unmap(listener.Addr().(*net.TCPAddr).AddrPort())
	l.hellos = p.clock.add(o.HelloTimeout)
	p.sockets[l] = struct{}{}
	p.readers.Go(l.accept)
	return l, nil
}

// accept is the listener's goroutine.
func (l *portableListener) accept() {
	for {
		conn, err := l.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if !l.post(&accepted{l, conn, err}) {
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			select {
			case <-time.After(acceptPause):
			case <-l.done:
			}
		}
	}
}

func (l *portableListener) post(a *accepted) bool {
	select {
	case l.poller.backlog <- a:
		return true
	case <-l.done:
		return false
	}
}

func (a *accepted) peer() netip.AddrPort { return unmap(a.conn.RemoteAddr().(*net.TCPAddr).AddrPort()) }

func (a *accepted) deliver(p *portable, _ Handler) {
	l := a.listener
	switch {
	case a.err != nil:
		p.stats.Errors++
		return
	case l.closed || l.open >= l.options.MaxConns || !l.greeted.take(a.peer()):
		p.stats.Streams.Refused++
		_ = a.conn.Close()
		return
	}
	s := p.newStream(l.options)
	s.addr = unmap(a.conn.LocalAddr().(*net.TCPAddr).AddrPort())
	s.peer = a.peer()
	s.owner, s.listener, s.greets = l.owner, l, true
	l.open++
	p.stats.Streams.Accepted++
	s.timer.due = func() { s.fail(ErrSilent) }
	l.hellos.set(&s.timer)
	p.readers.Go(func() { s.read(a.conn) })
}

func (l *portableListener) Close() { l.shut() }

// shut also ends the connections without a first frame.
func (l *portableListener) shut() {
	if l.closed {
		return
	}
	l.closed = true
	l.hellos.fireAll()
	l.poller.clock.drop(l.hellos)
	close(l.done)
	_ = l.listener.Close()
	delete(l.poller.sockets, l)
}
