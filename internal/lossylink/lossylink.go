// Package lossylink carries UDP datagrams between clients and a server on real sockets, and drops or delays some. The
// package codec/codectest/simnet does the same in virtual time. The legs of TestBeside in interop also refuse, reorder
// and change addresses.
package lossylink

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"tidegate/internal/netio"
)

// seed is fixed, so that every run drops the same datagrams of a sequence.
const seed = 1

// Link carries datagrams between clients and a server, and drops some. Each client has a socket of its own towards the
// server, so that the server sees one address per client.
type Link struct {
	poller  netio.Poller
	front   netio.Socket // where clients send
	server  netip.AddrPort
	paths   map[netip.AddrPort]netio.Socket // towards the server, by client; at most limit
	limit   int
	loss    Loss
	rng     *rand.Rand
	late    []delayed // delayed ones in the order of their times; at most maxLate
	carried atomic.Uint64
	lost    atomic.Uint64
	stopped atomic.Bool
	done    chan struct{}
}

// Stats counts datagrams in both directions together.
type Stats struct {
	Carried uint64 `json:"carried"`
	Lost    uint64 `json:"lost"`
}

// Loss is the share of datagrams that are dropped in each direction, 0 to 1.
type Loss struct {
	ToServer, ToClients float64
	// Chosen, if not nil, reports whether to drop a datagram, beside the shares. The link's goroutine calls it.
	Chosen func(toServer bool, datagram []byte) bool
	// Spared is the number of datagrams, in both directions together, that pass before any is dropped.
	Spared int
	// Delay is the time that each datagram takes, in each direction.
	Delay time.Duration
	// Buffer is the size of the sockets' buffers in bytes; 0: the system's. A small one loses bursts.
	Buffer int
}

// maxLate bounds the number of delayed datagrams. Further ones are dropped.
const maxLate = 1 << 14

// delayed is a datagram that waits for its time.
type delayed struct {
	at      time.Time
	from    netio.Socket
	to      netip.AddrPort
	content []byte
}

// StartAt opens a link at an address, to a server for at most the given number of clients.
func StartAt(at, server netip.AddrPort, clients int, loss Loss) (*Link, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	front, err := poller.Listen(at, netio.SocketOptions{ReceiveBuffer: loss.Buffer, SendBuffer: loss.Buffer})
	if err != nil {
		_ = poller.Close() // the earlier error matters more
		return nil, err
	}
	l := &Link{
		poller: poller,
		front:  front,
		server: server,
		paths:  make(map[netip.AddrPort]netio.Socket),
		limit:  clients,
		rng:    rand.New(rand.NewPCG(seed, 0)),
		loss:   loss,
		done:   make(chan struct{}),
	}
	go l.run()
	return l, nil
}

// Addr returns the address where clients send.
func (l *Link) Addr() netip.AddrPort { return l.front.Addr() }

// Stop closes the link and returns its final Stats.
func (l *Link) Stop() Stats {
	l.stopped.Store(true)
	l.poller.Wake()
	<-l.done
	_ = l.poller.Close() // nothing is left to lose
	return l.Stats()
}

// Stats returns the counts so far. It is safe for concurrent use.
func (l *Link) Stats() Stats { return Stats{Carried: l.carried.Load(), Lost: l.lost.Load()} }

func (l *Link) run() {
	defer close(l.done)
	for !l.stopped.Load() {
		var next time.Time // of the next delayed datagram; zero: none
		if len(l.late) > 0 {
			next = l.late[0].at
		}
		// An error ends the link: no client gets through, so the caller's result shows it.
		if l.poller.Wait(next) != nil {
			return
		}
		l.poller.Receive(l)
		l.release(time.Now())
		l.poller.Flush()
	}
}

// release sends the delayed datagrams whose time has come.
func (l *Link) release(now time.Time) {
	due := 0
	for ; due < len(l.late) && !l.late[due].at.After(now); due++ {
		l.poller.Send(l.late[due].from, l.late[due].to, l.late[due].content)
	}
	l.late = slices.Delete(l.late, 0, due)
}

// Datagram implements netio.Handler.
func (l *Link) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	toServer := s == l.front
	if l.loss.Chosen != nil && l.loss.Chosen(toServer, datagram) {
		l.lost.Add(1)
		return
	}
	if !toServer {
		l.carry(l.front, s.Owner().(netip.AddrPort), datagram, l.loss.ToClients)
		return
	}
	if path := l.path(from); path != nil {
		l.carry(path, l.server, datagram, l.loss.ToServer)
	}
}

// Failed implements netio.Handler. It ignores errors: the server may be gone already.
func (l *Link) Failed(netio.Socket, error) {}

func (l *Link) carry(s netio.Socket, to netip.AddrPort, content []byte, loss float64) {
	spared := l.carried.Load() < uint64(l.loss.Spared)
	if !spared && l.rng.Float64() < loss || l.loss.Delay > 0 && len(l.late) == maxLate {
		l.lost.Add(1)
		return
	}
	l.carried.Add(1)
	if l.loss.Delay == 0 {
		l.poller.Send(s, to, content)
		return
	}
	l.late = append(l.late, delayed{time.Now().Add(l.loss.Delay), s, to, slices.Clone(content)})
}

// path returns the socket of a client, or nil if there is no room or no socket.
func (l *Link) path(client netip.AddrPort) netio.Socket {
	if path := l.paths[client]; path != nil || len(l.paths) == l.limit {
		return path
	}
	path, err := l.poller.Dial(l.server, netio.SocketOptions{ReceiveBuffer: l.loss.Buffer, SendBuffer: l.loss.Buffer})
	if err != nil {
		return nil // the client will retry
	}
	path.SetOwner(client)
	l.paths[client] = path
	return path
}
