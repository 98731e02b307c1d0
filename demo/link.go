package demo

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/netio"
)

// linkSeed makes the same share of the same row of datagrams get lost in every run.
const linkSeed = 1

// link carries datagrams between clients and the proxy, and loses some. Each client has a socket of its own towards the
// proxy, and so an address by which the proxy knows it.
type link struct {
	poller netio.Poller
	front  netio.Socket // where clients send to
	door   netip.AddrPort
	paths  map[netip.AddrPort]netio.Socket // towards the proxy, by client; at most limit
	limit  int
	weather
	stats   LinkStats
	stopped atomic.Bool
	done    chan struct{}
}

// LinkStats counts datagrams, both ways together.
type LinkStats struct {
	Carried uint64
	Lost    uint64
}

// startLink opens a link to the proxy's door for a number of clients.
func startLink(door netip.AddrPort, clients int, loss float64) (*link, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	front, err := poller.Listen(loopback, netio.SocketOptions{})
	if err != nil {
		_ = poller.Close() // the error that matters is the one before
		return nil, err
	}
	l := &link{
		poller:  poller,
		front:   front,
		door:    door,
		paths:   make(map[netip.AddrPort]netio.Socket),
		limit:   clients,
		weather: newWeather(loss, linkSeed),
		done:    make(chan struct{}),
	}
	go l.run()
	return l, nil
}

func (l *link) addr() netip.AddrPort { return l.front.Addr() }

// stop ends the link and returns what it did.
func (l *link) stop() LinkStats {
	l.stopped.Store(true)
	l.poller.Wake()
	<-l.done
	_ = l.poller.Close() // nothing is left to be lost
	return l.stats
}

func (l *link) run() {
	defer close(l.done)
	for !l.stopped.Load() {
		// Without the link no client gets through, which the result shows.
		if l.poller.Wait(time.Time{}) != nil {
			return
		}
		l.poller.Receive(l)
		l.poller.Flush()
	}
}

// Datagram implements netio.Handler.
func (l *link) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	if s != l.front {
		l.carry(l.front, s.Owner().(netip.AddrPort), datagram)
		return
	}
	if path := l.path(from); path != nil {
		l.carry(path, l.door, datagram)
	}
}

// Failed implements netio.Handler. The proxy may be gone already.
func (l *link) Failed(netio.Socket, error) {}

func (l *link) carry(s netio.Socket, to netip.AddrPort, datagram []byte) {
	if l.loses() {
		l.stats.Lost++
		return
	}
	l.stats.Carried++
	l.poller.Send(s, to, datagram)
}

// path is the socket of a client, or nil where there can be none.
func (l *link) path(client netip.AddrPort) netio.Socket {
	if path := l.paths[client]; path != nil || len(l.paths) == l.limit {
		return path
	}
	path, err := l.poller.Dial(l.door, netio.SocketOptions{})
	if err != nil {
		return nil // the client tries again
	}
	path.SetOwner(client)
	l.paths[client] = path
	return path
}

// weather decides which datagrams are lost.
type weather struct {
	loss float64
	rng  *rand.Rand
}

func newWeather(loss float64, seed uint64) weather {
	return weather{loss: loss, rng: rand.New(rand.NewPCG(seed, 0))}
}

// loses reports whether the next datagram is lost.
func (w *weather) loses() bool { return w.rng.Float64() < w.loss }
