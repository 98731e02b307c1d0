// Package stray has the datagrams that travel between the nodes of a fleet. A client's path can change, so that its
// datagrams arrive at another node than the one with its session. That node passes them on, and sends the answers.
//
// Datagram is one of them, and Append writes many. Key names a client, so that nodes can tell one another which clients
// they have.
package stray

import (
	"encoding/binary"
	"errors"
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

// Bounds of a batch.
const (
	// MaxBatch is the size in bytes of the largest batch.
	MaxBatch = 128 << 10
	// MaxDatagram is the size in bytes of the largest datagram. It is netio's.
	MaxDatagram = 4096
	maxNode     = 64
	batchForm   = 1 // the version
)

// ErrBatch reports a batch that no node sends.
var ErrBatch = errors.New("a batch of datagrams that no node sends")

// Flags of a datagram in a batch.
const (
	isAnswer = 1 << iota
	hasLocal
	hopsShift = iota
	known     = 1<<(hopsShift+2) - 1
)

// Begin appends the head of a batch from a node. Append appends its datagrams.
func Begin(b []byte, node string) []byte {
	return append(append(b, batchForm, byte(len(node))), node...)
}

// Append appends a datagram to a batch. It returns false without room.
func Append(b []byte, d *Datagram, answer bool) ([]byte, bool) {
	if len(d.Bytes) > MaxDatagram || len(b)+len(d.Bytes)+48 > MaxBatch {
		return b, false
	}
	flags := d.Hops << hopsShift
	if answer {
		flags |= isAnswer
	}
	if d.Local.IsValid() {
		flags |= hasLocal
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, d.Listener)
	b = appendAddr(b, d.Client.Addr())
	b = binary.BigEndian.AppendUint16(b, d.Client.Port())
	if d.Local.IsValid() {
		b = appendAddr(b, d.Local)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.Bytes)))
	return append(b, d.Bytes...), true
}

func appendAddr(b []byte, a netip.Addr) []byte {
	ip := a.As16()
	return append(b, ip[:]...)
}

// Parse reads a batch. Its sender may be hostile. The datagrams alias b.
func Parse(b []byte) (node string, asked, answers []Datagram, err error) {
	if len(b) > MaxBatch || len(b) < 2 || b[0] != batchForm || b[1] == 0 || b[1] > maxNode || len(b) < 2+int(b[1]) {
		return "", nil, nil, ErrBatch
	}
	node = string(b[2 : 2+b[1]])
	r := reader{rest: b[2+b[1]:]}
	for len(r.rest) > 0 && !r.cut {
		d, flags := r.datagram()
		switch {
		case r.cut || flags > known || d.Hops > MaxHops || len(d.Bytes) == 0 || len(d.Bytes) > MaxDatagram,
			d.Client.Port() == 0 || d.Client.Addr().IsUnspecified():
			return "", nil, nil, ErrBatch
		case flags&isAnswer != 0:
			answers = append(answers, d)
		default:
			asked = append(asked, d)
		}
	}
	return node, asked, answers, nil
}

// reader reads a batch. cut says that it was too short.
type reader struct {
	rest []byte
	cut  bool
}

func (r *reader) datagram() (d Datagram, flags uint8) {
	flags = r.take(1)[0]
	d.Hops = flags >> hopsShift
	d.Listener = binary.BigEndian.Uint64(r.take(8))
	client := r.addr()
	d.Client = netip.AddrPortFrom(client, binary.BigEndian.Uint16(r.take(2)))
	if flags&hasLocal != 0 {
		d.Local = r.addr()
	}
	d.Bytes = r.take(int(binary.BigEndian.Uint16(r.take(2))))
	return d, flags
}

func (r *reader) addr() netip.Addr { return netip.AddrFrom16([16]byte(r.take(16))).Unmap() }

// take returns the next n bytes. After the end of the batch it returns zeros.
func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.cut, r.rest = true, nil
		return make([]byte, n)
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}
