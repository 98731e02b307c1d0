package tunpath

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testkit/netlab"
)

// Addresses of the two ends.
const (
	NearAddr = "10.77.0.1"
	FarAddr  = "10.78.0.1"
)

// device is the TUN device's name at both ends.
const device = "tun0"

// longestPacket is the largest IP packet.
const longestPacket = 1 << 16

// Weather is what happens to packets, in each direction alike. Shares are 0 to 1.
type Weather struct {
	Loss, Duplication float64
	// Reordering is the share of packets that wait for four times Jitter and Delay.
	Reordering float64
	// Corruption is the share of UDP packets in which one bit of the payload is flipped. The receiver's kernel finds
	// that by UDP's checksum. Package lossylink alters datagrams in a way that no kernel finds.
	Corruption    float64
	Delay, Jitter time.Duration
	// Rate is in bytes a second, 0 for no limit. Queue bounds the bytes that wait for it; further packets are dropped.
	Rate, Queue int
	// MTU is the size of the largest IP packet in bytes, 0 for no limit. A larger packet is fragmented, or answered with
	// ICMP "fragmentation needed" if it must not be fragmented.
	MTU int
	// Down drops all packets.
	Down bool
}

// Stats counts packets of both directions.
type Stats struct {
	Delivered, Lost, Doubled, Late, Corrupted int
	Overflowed, Fragments, TooLarge, Down     int
}

// Path is the path between two namespaces.
type Path struct {
	Near, Far *netlab.Namespace
	ends      [2]*os.File // near, far
	wake      chan struct{}

	mu       sync.Mutex
	weather  Weather
	rng      *rand.Rand
	stats    Stats
	waiting  packets
	order    uint64       // of the latest packet
	sendable [2]time.Time // when the line is free again, by sender
	closed   bool
}

// New returns a path in clear weather that lasts as long as the test.
func New(t testing.TB, seed uint64) *Path {
	t.Helper()
	p := &Path{Near: netlab.New(t, "near"), Far: netlab.New(t, "far"), wake: make(chan struct{}, 1),
		rng: rand.New(rand.NewPCG(seed, 0))}
	p.ends = [2]*os.File{p.Near.Tun(device, NearAddr+"/24"), p.Far.Tun(device, FarAddr+"/24")}
	p.Near.Route("10.78.0.0/24", "10.77.0.254")
	p.Far.Route("10.77.0.0/24", "10.78.0.254")
	var running sync.WaitGroup
	running.Go(func() { p.read(0) })
	running.Go(func() { p.read(1) })
	running.Go(p.deliver)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.nudge()
		_, _ = p.ends[0].Close(), p.ends[1].Close()
		running.Wait()
	})
	return p
}

// SetWeather changes the weather of packets from now on.
func (p *Path) SetWeather(w Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
}

// Stats returns the counts so far.
func (p *Path) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// read takes the packets of one end.
func (p *Path) read(from int) {
	b := make([]byte, longestPacket)
	for {
		n, err := p.ends[from].Read(b)
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		p.take(time.Now(), from, b[:n])
		p.mu.Unlock()
		p.nudge()
	}
}

// nudge has deliver look at the waiting packets again.
func (p *Path) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// deliver writes packets at their times.
func (p *Path) deliver() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return
		}
		next := time.Hour
		now := time.Now()
		var due []packet
		for len(p.waiting) > 0 && !p.waiting[0].at.After(now) {
			due = append(due, heap.Pop(&p.waiting).(packet))
		}
		if len(p.waiting) > 0 {
			next = p.waiting[0].at.Sub(now)
		}
		p.stats.Delivered += len(due)
		p.mu.Unlock()
		for _, d := range due {
			if _, err := p.ends[d.to].Write(d.content); errors.Is(err, os.ErrClosed) {
				return
			}
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-p.wake:
		}
	}
}

// packet is one that waits for its time.
type packet struct {
	at      time.Time
	order   uint64
	to      int
	content []byte
}

// packets is a heap by time.
type packets []packet

func (p packets) Len() int { return len(p) }
func (p packets) Less(i, j int) bool {
	return p[i].at.Before(p[j].at) || p[i].at.Equal(p[j].at) && p[i].order < p[j].order
}
func (p packets) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *packets) Push(x any)   { *p = append(*p, x.(packet)) }
func (p *packets) Pop() any {
	old := *p
	last := old[len(old)-1]
	*p = old[:len(old)-1]
	return last
}
