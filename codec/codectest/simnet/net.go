// Package simnet is a network in virtual time: any number of nodes exchange datagrams and streams through seeded
// weather (loss, duplication, latency, jitter, MTU, bandwidth). The same seed gives the same run to the byte. It knows
// no protocols and uses no clock, socket or goroutine. It serves tests only.
//
// Start with Node, which the network drives, and Net.Run. The network enforces law 2 of the codec contract (memory is
// lent): it overwrites each datagram as soon as its receiver returns, so that a kept reference shows at once.
package simnet

import (
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// collectRarely is called by the first simulation. The heaps of simulations are small and short-lived, so the usual
// share of garbage has them collected again and again: a fifth of the tests' processor time. A program that has chosen
// another share by GOGC keeps it, and so do the processes that a test starts from its own binary.
func collectRarely() {
	const usual, rare = 100, 400
	if begun.Swap(true) {
		return
	}
	if chosen := debug.SetGCPercent(rare); chosen != usual {
		debug.SetGCPercent(chosen)
	}
}

var begun atomic.Bool

// Node is a machine without I/O: a game client, a server with many connections, a whole proxy. It may own several
// addresses. Only its Net calls it; a Net is not safe for concurrent use.
type Node interface {
	// Receive takes a datagram that was sent from one address to one of the node's own, and drains all resulting
	// events. The datagram is overwritten when Receive returns.
	Receive(now time.Time, from, to netip.AddrPort, datagram []byte)
	// Advance runs everything that is due, and drains it.
	Advance(now time.Time)
	// Transmit appends one datagram to b, which has room for MaxDatagram bytes, and returns the sending and the
	// receiving address. It is called until ok is false.
	Transmit(now time.Time, b []byte) (datagram []byte, from, to netip.AddrPort, ok bool)
	// NextTimeout returns the time of the next call of Advance; zero means never.
	NextTimeout() time.Time
}

// TB is the part of testing.TB to which a Net reports.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// MaxDatagram is the room in bytes that Transmit gets: the largest UDP datagram.
const MaxDatagram = 65507

// maxIdleSteps is the number of steps without progress of virtual time that count as a busy loop.
const maxIdleSteps = 10_000

// epoch is the virtual time at which every Net starts.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// Net is the network. Use New.
type Net struct {
	tb      TB
	seed    uint64
	rng     *rand.Rand
	now     time.Time
	hosts   []*host // in the order added, which is the order of service
	byAddr  map[netip.AddrPort]*host
	weather Weather
	paths   map[path]*pathState
	// pathWeather returns the weather of a path, or nil for the common one. It is nil until SetPaths.
	pathWeather func(from, to netip.AddrPort) *Weather
	streams     map[path]*half // streams that have not ended, by direction
	queue       queue
	trace       trace
	tap         func(from, to netip.AddrPort, datagram []byte)
	idleSteps   int
	halted      bool
	scratch     []byte
}

// host is a node with the network's state about it.
type host struct {
	node     Node
	addrs    int
	deadline time.Time
	touched  bool // has had input since its last Transmit round
}

// New returns an empty network. If the test fails, the Net logs its seed and the last datagrams.
func New(tb TB, seed uint64, weather Weather) *Net {
	collectRarely()
	n := &Net{
		tb:      tb,
		seed:    seed,
		rng:     rand.New(rand.NewPCG(seed, 0x7469646567617465)),
		now:     epoch,
		byAddr:  make(map[netip.AddrPort]*host),
		weather: weather,
		paths:   make(map[path]*pathState),
		streams: make(map[path]*half),
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

// Now returns the current virtual time.
func (n *Net) Now() time.Time { return n.now }

// Elapsed returns the virtual time since New.
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

// Remove removes addresses. Datagrams to them vanish, and a node without addresses is no longer driven.
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

// SetTap calls f with every datagram that is sent, before the weather. f must not keep the datagram.
func (n *Net) SetTap(f func(from, to netip.AddrPort, datagram []byte)) { n.tap = f }

// Inject delivers a copy of a datagram after a delay, in any weather. It acts as an attacker who forges the
// source address.
func (n *Net) Inject(after time.Duration, from, to netip.AddrPort, datagram []byte) {
	n.trace.add(n.Elapsed(), from, to, datagram, fate{kind: injected, delay: after})
	n.queue.push(event{at: n.now.Add(after), from: from, to: to, datagram: n.queue.copyOf(datagram)})
}

// After calls f once the given virtual time has passed. f may give input to nodes.
func (n *Net) After(d time.Duration, f func()) {
	n.queue.push(event{at: n.now.Add(d), action: f})
}
