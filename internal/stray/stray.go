// Package stray has the datagrams that travel between the nodes of a fleet. A client's path can change, so that its
// datagrams arrive at another node than the one with its session. That node passes them on, and sends the answers.
//
// Datagram is one of them, and batch.go is the form of many. Key names a client, so that nodes can tell one another
// which clients they have.
package stray

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"

	"tidegate/internal/siphash"
)

// Datagram is a client's datagram that arrived at another node, or the answer to one.
type Datagram struct {
	Listener uint64     // ListenerID of the listener
	Local    netip.Addr // the client's datagrams arrive at it; invalid: at the listener's only address
	Client   netip.AddrPort
	Hops     uint8 // nodes that have passed it on before
	Bytes    []byte
}

// Session is a session on its way to another node.
type Session struct {
	Client Key
	At     string // the node at which the client's datagrams arrive; empty: the node that the session leaves
	Record []byte
}

// MaxHops bounds Hops: a client's session can move while its datagram is on the way, but not again and again.
const MaxHops = 2

// Carrier takes datagrams from the loops of a proxy to other nodes. It does not block and keeps no argument. It is safe
// for concurrent use.
type Carrier interface {
	// PassOn takes a client's datagram to the node that has its session. It returns false if no other node is known to
	// have it.
	PassOn(client Key, d *Datagram) bool
	// PassHere takes a client's datagram to another loop of this node.
	PassHere(d *Datagram)
	// Answer takes a datagram for a client to the node where the client's datagrams arrive.
	Answer(node string, d *Datagram)
	// Has reports whether another node has a client's session, as far as is known.
	Has(node string, client Key) bool
}

// Key names a client of a listener. Two clients can have the same one, so the owner of a session looks at the address.
type Key uint64

// Secret makes keys. A stranger who does not have it cannot choose addresses that have a certain key.
type Secret [2]uint64

// ListenerID returns the number of a listener: its name, and its configured port, since a range of ports has one name.
func ListenerID(name string, port uint16) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint16([]byte(name), port)) // never fails
	return h.Sum64()
}

// Key returns the key of a client. It is SipHash-1-3 of four words (Aumasson and Bernstein, 2012).
func (k Secret) Key(listener uint64, client netip.AddrPort) Key {
	ip := client.Addr().As16()
	s := siphash.New(k[0], k[1])
	for _, word := range [...]uint64{
		listener, binary.BigEndian.Uint64(ip[:8]), binary.BigEndian.Uint64(ip[8:]), uint64(client.Port()), 32 << 56,
	} { // the last one is the length
		s.Word(word, 1)
	}
	return Key(s.Sum(3))
}
