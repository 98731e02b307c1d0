package raknet_test

import (
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// lossyPath is a UDP relay in real time between one client and a server. It delays each datagram, and loses some after
// losing is switched on.
type lossyPath struct {
	front, back *net.UDPConn // towards the client and the server
	client      atomic.Pointer[net.UDPAddr]
	delay       time.Duration // in each direction
	loss        float64
	losing      atomic.Bool
}

type lateDatagram struct {
	at time.Time
	b  []byte
}

// newLossyPath returns a path to the server's address. The path ends with the test.
func newLossyPath(t testing.TB, server string, delay time.Duration, loss float64) *lossyPath {
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.DialUDP("udp", nil, to)
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyLoopback))
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range []*net.UDPConn{front, back} {
		_ = socket.SetReadBuffer(4 << 20)
		t.Cleanup(func() { socket.Close() })
	}
	p := &lossyPath{front: front, back: back, delay: delay, loss: loss}
	p.carry(1, func(b []byte) (int, error) {
		n, from, err := p.front.ReadFromUDP(b)
		if err == nil {
			p.client.Store(from)
		}
		return n, err
	}, p.back.Write)
	p.carry(2, p.back.Read, func(b []byte) (int, error) { return p.front.WriteToUDP(b, p.client.Load()) })
	return p
}

func (p *lossyPath) address() string { return p.front.LocalAddr().String() }

// carry transfers datagrams in one direction until the sockets are closed.
func (p *lossyPath) carry(seed uint64, read, write func([]byte) (int, error)) {
	late := make(chan lateDatagram, 1<<14)
	go func() {
		defer close(late)
		rng := rand.New(rand.NewPCG(seed, 5))
		room := make([]byte, 2048)
		for {
			n, err := read(room)
			if err != nil {
				return
			}
			if !p.losing.Load() || rng.Float64() >= p.loss {
				late <- lateDatagram{time.Now().Add(p.delay), append([]byte(nil), room[:n]...)}
			}
		}
	}()
	go func() {
		for d := range late {
			<-time.After(time.Until(d.at))
			_, _ = write(d.b)
		}
	}()
}
