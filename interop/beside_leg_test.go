//go:build interop

package interop_test

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"
)

// climate is what a leg does to each datagram.
type climate struct {
	delay  time.Duration // each way
	jitter time.Duration // the most that is added at random, which reorders
	loss   float64       // share of the datagrams, each way
	// holeDown and holeUp are the most bytes of a datagram to the players and to the server; 0: no bound.
	holeDown, holeUp int
}

// leg carries the datagrams of one stretch of the way between players and their server, in user space. Each sender has
// a socket of its own towards the far end, so that the far end sees one address for each.
type leg struct {
	mu      sync.Mutex
	at      *net.UDPAddr
	near    *net.UDPConn // nil while the leg refuses
	far     netip.AddrPort
	climate climate
	cut     bool
	random  *rand.Rand
	paths   map[netip.AddrPort]*net.UDPConn // towards the far end, by sender
	late    lateHeap
	sent    uint64 // orders the late ones of one time
	wake    chan struct{}
	closed  bool
}

// late is a datagram that waits for its time.
type late struct {
	at    time.Time
	order uint64
	send  func()
}

type lateHeap []late

func (h lateHeap) Len() int { return len(h) }
func (h lateHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}
func (h lateHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *lateHeap) Push(x any)   { *h = append(*h, x.(late)) }
func (h *lateHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// newLeg opens a leg to a server's port, which lasts as long as the test.
func newLeg(t *testing.T, far string, c climate) *leg {
	t.Helper()
	l := &leg{at: net.UDPAddrFromAddrPort(netipAt(freePort(t))), far: netipAt(far), climate: c,
		random: rand.New(rand.NewPCG(1, 2)), paths: make(map[netip.AddrPort]*net.UDPConn), wake: make(chan struct{}, 1)}
	l.open()
	for range 10 { // a neighbor may have taken the free port meanwhile
		if l.near == nil {
			l.at = net.UDPAddrFromAddrPort(netipAt(freePort(t)))
			l.open()
		}
	}
	if l.near == nil {
		t.Fatalf("no leg at %v", l.at)
	}
	go l.release()
	t.Cleanup(l.close)
	return l
}

func (l *leg) port() string { return strconv.Itoa(l.at.Port) }

// open begins to listen.
func (l *leg) open() {
	near, err := net.ListenUDP("udp4", l.at)
	if err != nil {
		return // the caller sees it by near
	}
	roomy(near)
	l.mu.Lock()
	l.near = near
	l.mu.Unlock()
	go l.read(near, func(from netip.AddrPort, d []byte) {
		if path := l.path(from); path != nil {
			l.carry(true, d, func(d []byte) { _, _ = path.Write(d) }) // a lost datagram is part of UDP
		}
	})
}

func (l *leg) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.near != nil {
		_ = l.near.Close()
	}
	for _, path := range l.paths {
		_ = path.Close()
	}
	l.poke()
}

func (l *leg) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// path returns a sender's socket towards the far end.
func (l *leg) path(from netip.AddrPort) *net.UDPConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if path := l.paths[from]; path != nil || l.closed {
		return path
	}
	path, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(l.far))
	if err != nil {
		return nil // the sender tries again
	}
	roomy(path)
	l.paths[from] = path
	go l.read(path, func(_ netip.AddrPort, d []byte) {
		l.carry(false, d, func(d []byte) {
			l.mu.Lock()
			near := l.near
			l.mu.Unlock()
			if near != nil {
				_, _ = near.WriteToUDPAddrPort(d, from)
			}
		})
	})
	return path
}

// read hands on datagrams until the socket is closed. A refusal of an earlier datagram does not end it.
func (l *leg) read(conn *net.UDPConn, take func(from netip.AddrPort, d []byte)) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if err == nil {
			take(from, b[:n])
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// carry sends a datagram after the time that it takes, unless it is lost.
func (l *leg) carry(up bool, d []byte, send func(d []byte)) {
	l.mu.Lock()
	c, hole := l.climate, l.climate.holeDown
	if up {
		hole = c.holeUp
	}
	lost := l.cut || hole > 0 && len(d) > hole || c.loss > 0 && l.random.Float64() < c.loss
	if lost || c.delay == 0 && c.jitter == 0 {
		l.mu.Unlock()
		if !lost {
			send(d)
		}
		return
	}
	defer l.mu.Unlock()
	after := c.delay
	if c.jitter > 0 {
		after += time.Duration(l.random.Int64N(int64(c.jitter)))
	}
	kept := append([]byte(nil), d...)
	l.sent++
	heap.Push(&l.late, late{time.Now().Add(after), l.sent, func() { send(kept) }})
	l.poke()
}

// release sends what has waited for its time.
func (l *leg) release() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return
		}
		var due []func()
		for len(l.late) > 0 && !l.late[0].at.After(time.Now()) {
			due = append(due, heap.Pop(&l.late).(late).send)
		}
		next := time.Hour
		if len(l.late) > 0 {
			next = time.Until(l.late[0].at)
		}
		l.mu.Unlock()
		for _, send := range due {
			send()
		}
		if len(due) > 0 {
			continue
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-l.wake:
		}
	}
}

// setCut loses every datagram, or none.
func (l *leg) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

// setClimate changes the climate.
func (l *leg) setClimate(c climate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.climate = c
}

// refuse has the kernel refuse what arrives, as at a host whose program is gone.
func (l *leg) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.near.Close()
	l.near = nil
}

// move gives each sender another address at the far end.
func (l *leg) move() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for from, path := range l.paths {
		_ = path.Close()
		delete(l.paths, from)
	}
}

// lead leads new senders to another server. Known senders stay, as with the table of a NAT.
func (l *leg) lead(far string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.far = netipAt(far)
}
