// Package door bounds the TCP connections that a listener of ours holds, so that strangers cannot take the process's
// memory and descriptors. New connections always get in: the oldest one that has proved nothing makes room.
package door

import (
	"net"
	"net/netip"
	"sync"
)

// Conns is the usual bound of the connections at one listener. With about 50 KiB and at most three descriptors each,
// all doors of a process together take less than 10 MiB and 400 descriptors.
const Conns = 64

// Room is a bounded number of connections of one or several listeners. It is safe for concurrent use.
type Room struct {
	bound int

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	counter uint64 // of accepted connections
}

// NewRoom returns the room for a number of connections.
func NewRoom(conns int) *Room { return &Room{bound: conns, conns: make(map[*Conn]struct{}, conns)} }

// Listener accepts a bounded number of connections. It is safe for concurrent use.
type Listener struct {
	net.Listener
	*Room
}

// Bound returns a listener that holds at most this number of connections of another one.
func Bound(l net.Listener, conns int) *Listener { return NewRoom(conns).Bound(l) }

// Bound returns a listener whose connections have the room together with those of the room's other listeners.
func (r *Room) Bound(l net.Listener) *Listener { return &Listener{l, r} }

// Conn is a connection of a Listener. Its Close makes room for another one.
type Conn struct {
	net.Conn
	room    *Room
	network netip.Prefix
	number  uint64 // in the order of arrival
	kept    bool
}

// Accept waits for a connection. If there are as many as the bound, it closes one that is not kept: the oldest of the
// network with the most of them. If all are kept, it closes the new one.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
		_ = raw.Close()
	}
}

// admit counts a connection, or returns nil.
func (r *Room) admit(raw net.Conn) *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Conn{Conn: raw, room: r, network: networkOf(raw.RemoteAddr()), number: r.counter}
	r.counter++
	if len(r.conns) >= r.bound {
		out := r.victim()
		if out == nil {
			return nil
		}
		delete(r.conns, out)
		_ = out.Conn.Close()
	}
	r.conns[c] = struct{}{}
	return c
}

// victim returns the connection that makes room, or nil.
func (r *Room) victim() (out *Conn) {
	held := make(map[netip.Prefix]int)
	for c := range r.conns {
		held[c.network]++
	}
	for c := range r.conns {
		if c.kept {
			continue
		}
		if out != nil && held[c.network] < held[out.network] {
			continue
		}
		if out == nil || held[c.network] > held[out.network] || c.number < out.number {
			out = c
		}
	}
	return out
}

// networkOf returns the /24 or /64 of a peer. The peers of a Unix socket have the zero Prefix.
func networkOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr, bits := tcp.AddrPort().Addr().Unmap(), 24
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // an error needs too many bits
	return network
}

// Keep keeps a connection until Yield: none that arrives later takes its place.
func (c *Conn) Keep() { c.keep(true) }

// Yield ends Keep.
func (c *Conn) Yield() { c.keep(false) }

func (c *Conn) keep(kept bool) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	c.kept = kept
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.room.mu.Lock()
	delete(c.room.conns, c)
	c.room.mu.Unlock()
	return c.Conn.Close()
}
