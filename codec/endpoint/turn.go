package endpoint

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/session"
)

// Turn sends the connections' datagrams, waits for datagrams until the given time, and handles them and all
// deadlines that have passed. The zero time means no end. Turn may return early.
func (e *Endpoint[T]) Turn(until time.Time) error {
	e.Flush()
	if err := e.poller.Wait(codec.Earliest(until, e.table.NextTimeout())); err != nil {
		return err
	}
	e.now = time.Now()
	e.poller.Receive(handler[T]{e})
	e.runPosted()
	for due := e.table.Due(e.now); due != nil; due = e.table.Due(e.now) {
		due.Value.Advance(e.now)
		e.settle(due.Value)
	}
	return nil
}

// Flush sends the connections' datagrams, and removes connections that have ended.
func (e *Endpoint[T]) Flush() {
	for i := 0; i < len(e.dirty); i++ { // Transmit can cause events, which append to e.dirty
		e.flush(e.dirty[i])
	}
	e.dirty = e.dirty[:0]
	e.poller.Flush()
}

func (e *Endpoint[T]) flush(c *Conn[T]) {
	if c.dirty = false; c.removed {
		return
	}
	for b, ok := c.Transmit(e.now, e.poller.Buffer()); ok; b, ok = c.Transmit(e.now, e.poller.Buffer()) {
		if e.options.Sent != nil && c.Listener == nil {
			e.options.Sent(c, b)
		}
		e.poller.Send(c.socket, c.Peer(), b)
	}
	if c.full > 0 && !c.gone && c.Stats().Queued <= c.full/2 {
		c.full = 0
		if e.options.Writable != nil {
			e.options.Writable(c)
			e.mark(c)
		}
	}
	switch {
	case e.poll(c): // the answers to these events have to be sent too, also before a removal
		e.mark(c)
	case c.gone:
		e.remove(c)
	default:
		e.table.Schedule(c.entry, e.now, c.NextTimeout())
	}
}

// remove forgets a connection that has ended. It closes the socket unless that is a listener's.
func (e *Endpoint[T]) remove(c *Conn[T]) {
	c.removed = true
	e.table.Remove(c.entry)
	if c.Listener == nil || c.stream {
		c.socket.Close()
	}
}

// settle handles the events of a connection after an input, and has its output sent with the next Flush.
func (e *Endpoint[T]) settle(c *Conn[T]) {
	e.poll(c)
	e.mark(c)
}

func (e *Endpoint[T]) mark(c *Conn[T]) {
	if !c.dirty {
		c.dirty = true
		e.dirty = append(e.dirty, c)
	}
}

// poll gives the events of a connection to the handler, and reports whether there were any.
func (e *Endpoint[T]) poll(c *Conn[T]) (found bool) {
	ev := e.spare // not in use: Event can cause another poll, by Dial
	if e.spare = nil; ev == nil {
		ev = new(codec.Event)
	}
	var more bool
	for *ev, more = c.Poll(); more; *ev, more = c.Poll() {
		found = true
		switch ev.Kind {
		case codec.Asked:
			e.admit(c, ev)
			continue
		case codec.Connected:
			c.connected = true
		case codec.Disconnected:
			c.gone, c.reason = true, ev.Reason
		}
		e.options.Event(c, ev)
	}
	e.spare = ev
	return found
}

// admit admits or refuses a client that asks.
func (e *Endpoint[T]) admit(c *Conn[T], ev *codec.Event) {
	if e.options.Admit != nil {
		if why := e.options.Admit(c, ev); why != codec.ReasonNone {
			c.Close(e.now, codec.Goodbye{Reason: why})
			return
		}
	}
	c.Admit(e.now, c.Number)
}

// handler implements netio.Handler for an Endpoint, so that these methods are not part of the Endpoint's API.
type handler[T any] struct{ *Endpoint[T] }

// Datagram implements netio.Handler.
func (h handler[T]) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	c := h.find(s, from)
	if c == nil {
		if l, ok := s.Owner().(*Listener); ok {
			h.accept(l, s, from, datagram)
		}
		return
	}
	_ = c.Receive(h.now, datagram) // the connection counts dropped datagrams
	h.settle(c)
	if l := c.Listener; c.gone && l != nil && !l.stream {
		if h.flush(c); c.removed { // the client may have begun anew with this datagram
			h.accept(l, s, from, datagram)
		}
	}
}

// Failed implements netio.Handler. The end of a stream ends its connection. A datagram socket stays usable: its
// connection goes on until its own timeout.
func (h handler[T]) Failed(s netio.Socket, err error) {
	c := h.find(s, s.Peer())
	if c != nil && !c.stream && !c.gone && h.options.Failed != nil {
		h.options.Failed(c, err)
	}
	if c == nil || !c.stream || c.gone {
		return
	}
	c.gone, c.reason = true, codec.TransportError
	h.options.Event(c, &codec.Event{Kind: codec.Disconnected, Reason: c.reason})
	h.settle(c)
}

// find returns the connection of a peer at a socket, or nil.
func (h handler[T]) find(s netio.Socket, peer netip.AddrPort) *Conn[T] {
	switch owner := s.Owner().(type) {
	case *Conn[T]:
		return owner
	case *Listener:
		if e := h.table.Get(session.Key{Listener: owner.number, Client: peer}); e != nil {
			return e.Value
		}
	}
	return nil
}

// accept answers a datagram of an unknown client. It adds a connection if the protocol makes one and there is room.
func (h handler[T]) accept(l *Listener, s netio.Socket, from netip.AddrPort, datagram []byte) {
	if h.leaving || h.table.Room(from.Addr()) != nil || !l.protocol.Sniff(datagram) {
		return
	}
	conn, reply, err := l.protocol.Accept(h.now, from, datagram, h.poller.Buffer())
	if err == nil && len(reply) > 0 {
		h.poller.Send(s, from, reply)
	}
	if conn == nil {
		return
	}
	c := &Conn[T]{Conn: conn, socket: s, Listener: l, stream: l.stream}
	if h.add(session.Key{Listener: l.number, Client: from}, c) != nil {
		return // never: there was room
	}
	l.accepted++
	c.Number = l.accepted
	h.settle(c)
}
