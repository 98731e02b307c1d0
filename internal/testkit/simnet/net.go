// Package simnet is a network in virtual time: any number of nodes exchange datagrams and streams through seeded
// weather (loss, duplication, latency, jitter, MTU, bandwidth). The same seed gives the same run to the byte. It knows
// nothing of protocols and uses no clock, socket or goroutine; it serves tests only.
//
// Start with Node, which is what the network drives, and Net.Run. Law 2 of the codec contract (memory is lent) is
// enforced here: each datagram is overwritten as soon as its receiver returns, so a kept reference shows at once.
package simnet

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

// Node is a machine without I/O: a game client, a server with many connections, a whole proxy. It may own several
// addresses. A node is only called by its Net, which is not safe for concurrent use.
type Node interface {
	// Receive takes a datagram sent from one address to one of the node's own, and drains whatever that input
	// makes ready. The datagram is overwritten when Receive returns.
	Receive(now time.Time, from, to netip.AddrPort, datagram []byte)
	// Advance runs whatever is due, and drains it.
	Advance(now time.Time)
	// Transmit appends one datagram to b, which has room for MaxDatagram bytes, and says which of the node's
	// addresses sends it where; or reports false. It is called until it does.
	Transmit(now time.Time, b []byte) (datagram []byte, from, to netip.AddrPort, ok bool)
	// NextTimeout is when Advance wants to be called next; zero means never.
	NextTimeout() time.Time
}

// TB is the part of testing.TB that a Net reports to.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// MaxDatagram is the room in bytes that Transmit is given, which is that of any UDP datagram.
const MaxDatagram = 65507

// maxIdleSteps is how many steps may pass without virtual time moving on before the run is called a busy loop.
const maxIdleSteps = 10_000

// epoch is the virtual time at which every Net starts.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// Net is the network. Make one with New.
type Net struct {
	tb        TB
	seed      uint64
	rng       *rand.Rand
	now       time.Time
	hosts     []*host // in the order added, which is the order of service
	byAddr    map[netip.AddrPort]*host
	weather   Weather
	paths     map[path]*pathState
	lanes     map[path]*lane // of the streams that have not ended
	queue     queue
	trace     trace
	tap       func(from, to netip.AddrPort, datagram []byte)
	idleSteps int
	halted    bool
	scratch   []byte
}

// host is a node with what the network knows of it.
type host struct {
	node     Node
	addrs    int
	deadline time.Time
	touched  bool // has had input since its last Transmit round
}

// New returns an empty network. When the test fails, it logs the seed and the last datagrams.
func New(tb TB, seed uint64, weather Weather) *Net {
	n := &Net{
		tb:      tb,
		seed:    seed,
		rng:     rand.New(rand.NewPCG(seed, 0x7469646567617465)),
		now:     epoch,
		byAddr:  make(map[netip.AddrPort]*host),
		weather: weather,
		paths:   make(map[path]*pathState),
		lanes:   make(map[path]*lane),
		trace:   newTrace(),
		scratch: make([]byte, 0, MaxDatagram),
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			n.logTrace()
		}
	})
	return n
}

// Now is the present virtual time.
func (n *Net) Now() time.Time { return n.now }

// Elapsed is how much virtual time has passed since New.
func (n *Net) Elapsed() time.Duration { return n.now.Sub(epoch) }

// Add connects a node under its addresses, which must be free.
func (n *Net) Add(node Node, addrs ...netip.AddrPort) {
	h := &host{node: node, addrs: len(addrs)}
	for _, addr := range addrs {
		if n.byAddr[addr] != nil {
			panic("simnet: address in use: " + addr.String())
		}
		n.byAddr[addr] = h
	}
	n.hosts = append(n.hosts, h)
}

// Remove takes away addresses: datagrams to them reach nobody, and a node without any is not driven any more.
func (n *Net) Remove(addrs ...netip.AddrPort) {
	for _, addr := range addrs {
		if h := n.byAddr[addr]; h != nil {
			delete(n.byAddr, addr)
			h.addrs--
		}
	}
	kept := n.hosts[:0]
	for _, h := range n.hosts {
		if h.addrs > 0 {
			kept = append(kept, h)
		}
	}
	clear(n.hosts[len(kept):])
	n.hosts = kept
}

// SetTap makes f see every datagram as it is sent, before the weather; f must not keep it.
func (n *Net) SetTap(f func(from, to netip.AddrPort, datagram []byte)) { n.tap = f }

// Inject delivers a copy of a datagram after a delay, whatever the weather, as somebody who forges from would.
func (n *Net) Inject(after time.Duration, from, to netip.AddrPort, datagram []byte) {
	n.trace.add(n.Elapsed(), from, to, datagram, fate{kind: injected, delay: after})
	n.queue.push(event{at: n.now.Add(after), from: from, to: to, datagram: n.queue.copyOf(datagram)})
}

// After calls f once the given virtual time has passed. f may give input to nodes.
func (n *Net) After(d time.Duration, f func()) {
	n.queue.push(event{at: n.now.Add(d), action: f})
}
