package bench

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/session"
)

// crowd is connections over real sockets: players, guests of servers, or both.
type crowd struct {
	poller netio.Poller
	houses int // servers
	table  *session.Table[member]
	dirty  []*entry
	now    time.Time // of this turn
	// heed is told what happens on a connection, and overhear, if there is one, what players send.
	heed     func(e *entry, ev *codec.Event)
	overhear func(e *entry, datagram []byte)
}

// house is a server of a crowd, the owner of its socket.
type house struct {
	protocol codec.Protocol
	socket   netio.Socket
	number   int // in the keys of its guests, from 1
}

type entry = session.Entry[member]

// member is one connection.
type member struct {
	conn   codec.Conn
	socket netio.Socket
	house  *house // whose guest it is; nil for a player
	dirty  bool
	gone   bool
	player *player   // where players differ
	number uint64    // of its joining, where joining is what counts
	joined time.Time // when that should have begun
}

func newCrowd(heed func(*entry, *codec.Event)) (*crowd, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &crowd{
		poller: poller, now: now, heed: heed,
		table: session.NewTable[member](session.Limits{Sessions: 2 * maxSessions, HalfOpen: 2 * maxSessions}, now),
	}, nil
}

func (c *crowd) close() { _ = c.poller.Close() }

// open opens a server.
func (c *crowd) open(p codec.Protocol, o netio.SocketOptions) (*house, error) {
	s, err := c.poller.Listen(netip.AddrPortFrom(home, 0), o)
	if err != nil {
		return nil, err
	}
	c.houses++
	h := &house{protocol: p, socket: s, number: c.houses}
	s.SetOwner(h)
	return h, nil
}

// join has a player dial a server by a socket. No two sockets have one address.
func (c *crowd) join(p codec.Protocol, s netio.Socket, to netip.AddrPort, identity uint64) (*entry, error) {
	conn := p.Dial(c.now, to, codec.Hello{Identity: identity, From: s})
	e, err := c.table.Add(session.Key{Client: s.Addr()}, member{conn: conn, socket: s})
	if err != nil {
		s.Close()
		return nil, err
	}
	s.SetOwner(e)
	c.settle(e)
	return e, nil
}

// come has the client of a key join.
func (c *crowd) come(p codec.Protocol, to netip.AddrPort, key uint64) (*entry, error) {
	s, err := dialClient(c.poller, to, key)
	if err != nil {
		return nil, err
	}
	return c.join(p, s, to, key+1)
}

// Datagram implements netio.Handler.
func (c *crowd) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	e, _ := s.Owner().(*entry)
	if h, ok := s.Owner().(*house); ok {
		if e = c.table.Get(session.Key{Listener: h.number, Client: from}); e == nil {
			c.welcome(h, from, datagram)
			return
		}
	}
	if e != nil {
		_ = e.Value.conn.Receive(c.now, datagram) // what the connection drops it counts
		c.settle(e)
	}
}

// Failed implements netio.Handler.
func (c *crowd) Failed(netio.Socket, error) {}

// welcome makes a guest of a newcomer, if the datagram makes one.
func (c *crowd) welcome(h *house, from netip.AddrPort, datagram []byte) {
	if !h.protocol.Sniff(datagram) {
		return
	}
	conn, reply, err := h.protocol.Accept(c.now, from, datagram, c.poller.Buffer())
	if err == nil && len(reply) > 0 {
		c.poller.Send(h.socket, from, reply)
	}
	if conn == nil {
		return
	}
	if e, err := c.table.Add(session.Key{Listener: h.number, Client: from}, member{conn: conn, socket: h.socket, house: h}); err == nil {
		c.settle(e)
	}
}

// settle takes what an input has brought about.
func (c *crowd) settle(e *entry) {
	c.poll(e)
	c.mark(e)
}

// poll takes a connection's events, and reports whether there were any.
func (c *crowd) poll(e *entry) (found bool) {
	m := &e.Value
	for ev, ok := m.conn.Poll(); ok; ev, ok = m.conn.Poll() {
		m.gone, found = m.gone || ev.Kind == codec.Disconnected, true
		c.heed(e, &ev)
	}
	return found
}

// mark has what a connection has to say sent with the next flush.
func (c *crowd) mark(e *entry) {
	if !e.Value.dirty {
		e.Value.dirty = true
		c.dirty = append(c.dirty, e)
	}
}

// turn waits until a time, zero for ever, for what comes.
func (c *crowd) turn(until time.Time) error {
	c.flush()
	if next := c.table.NextTimeout(); until.IsZero() || !next.IsZero() && next.Before(until) {
		until = next
	}
	if err := c.poller.Wait(until); err != nil {
		return err
	}
	c.now = time.Now()
	c.poller.Receive(c)
	for e := c.table.Due(c.now); e != nil; e = c.table.Due(c.now) {
		e.Value.conn.Advance(c.now)
		c.settle(e)
	}
	return nil
}

// flush sends what there is to say, and lets go of those who have gone.
func (c *crowd) flush() {
	for i := 0; i < len(c.dirty); i++ {
		e := c.dirty[i]
		m := &e.Value
		m.dirty = false
		for b, ok := m.conn.Transmit(c.now, c.poller.Buffer()); ok; b, ok = m.conn.Transmit(c.now, c.poller.Buffer()) {
			if c.overhear != nil && m.house == nil {
				c.overhear(e, b)
			}
			c.poller.Send(m.socket, e.Key.Client, b)
		}
		if c.poll(e) {
			c.mark(e) // what came of it wants to be sent too
			continue
		}
		if !m.gone {
			c.table.Schedule(e, c.now, m.conn.NextTimeout())
			continue
		}
		c.table.Remove(e)
		if m.house == nil {
			m.socket.Close()
		}
	}
	c.dirty = c.dirty[:0]
	c.poller.Flush()
}
