package tunpath

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
)

// pair returns a sender at the near end and a receiver at the far one.
func pair(t *testing.T, p *Path) (sender, receiver *net.UDPConn) {
	t.Helper()
	receiver = open(t, p.Far, FarAddr)
	return open(t, p.Near, NearAddr), receiver
}

func open(t *testing.T, n *netlab.Namespace, at string) (conn *net.UDPConn) {
	t.Helper()
	var err error
	n.Do(func() {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(at), 0)))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, from, to *net.UDPConn, content []byte) {
	t.Helper()
	if _, err := from.WriteTo(content, to.LocalAddr()); err != nil {
		t.Log(err) // a datagram that is too large for a path whose MTU is known
	}
}

func receive(t *testing.T, conn *net.UDPConn) []byte {
	t.Helper()
	b := make([]byte, longestPacket)
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, _, err := conn.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// TestWeather sends datagrams in each weather, and compares what arrives with what the path says it did.
func TestWeather(t *testing.T) {
	const datagrams = 150 // the receiver has room for them
	p := New(t, 1)
	sender, receiver := pair(t, p)
	for _, c := range []struct {
		name    string
		weather Weather
		did     func(s Stats) int // how many packets met it
		extra   func(s Stats) int // datagrams that arrive beyond those sent; negative: fewer
	}{
		{"clear", Weather{}, func(s Stats) int { return s.Delivered }, func(Stats) int { return 0 }},
		{"loss", Weather{Loss: 0.3}, func(s Stats) int { return s.Lost }, func(s Stats) int { return -s.Lost }},
		{"duplication", Weather{Duplication: 0.3}, func(s Stats) int { return s.Doubled },
			func(s Stats) int { return s.Doubled }},
		{"rate", Weather{Rate: 50_000, Queue: 5_000}, func(s Stats) int { return s.Overflowed },
			func(s Stats) int { return -s.Overflowed }},
		{"outage", Weather{Down: true}, func(s Stats) int { return s.Down }, func(s Stats) int { return -s.Down }},
	} {
		p.SetWeather(c.weather)
		before := p.Stats()
		for range datagrams {
			send(t, sender, receiver, make([]byte, 100))
		}
		var s Stats
		await.Until(t, "all sent", func() bool {
			s = difference(p.Stats(), before)
			return s.Delivered == datagrams+c.extra(s) && s.Delivered+s.Lost+s.Overflowed+s.Down-s.Doubled == datagrams
		})
		if c.did(s) < datagrams/10 {
			t.Errorf("%s: only %d of %d packets met it", c.name, c.did(s), datagrams)
		}
		for range datagrams + c.extra(s) {
			receive(t, receiver)
		}
	}
}

func difference(a, b Stats) Stats {
	return Stats{Delivered: a.Delivered - b.Delivered, Lost: a.Lost - b.Lost, Doubled: a.Doubled - b.Doubled,
		Overflowed: a.Overflowed - b.Overflowed, Down: a.Down - b.Down}
}

// TestCorruption asserts that the receiver's kernel drops a datagram with a flipped bit.
func TestCorruption(t *testing.T) {
	p := New(t, 1)
	sender, receiver := pair(t, p)
	p.SetWeather(Weather{Corruption: 1})
	send(t, sender, receiver, []byte("flipped"))
	await.Until(t, "altered and written", func() bool { s := p.Stats(); return s.Corrupted == 1 && s.Delivered == 1 })
	p.SetWeather(Weather{})
	send(t, sender, receiver, []byte("whole"))
	if got := receive(t, receiver); string(got) != "whole" {
		t.Errorf("%q arrived", got)
	}
}

// TestDelayReorders asserts that a datagram takes its time, and that a later one may overtake it.
func TestDelayReorders(t *testing.T) {
	const delay = 30 * time.Millisecond
	p := New(t, 1)
	sender, receiver := pair(t, p)
	p.SetWeather(Weather{Delay: delay, Reordering: 1})
	began := time.Now()
	send(t, sender, receiver, []byte{1})
	await.Until(t, "on its way", func() bool { return p.Stats().Late == 1 })
	p.SetWeather(Weather{})
	send(t, sender, receiver, []byte{2})
	if first, second := receive(t, receiver), receive(t, receiver); first[0] != 2 || second[0] != 1 {
		t.Errorf("%d came before %d", first[0], second[0])
	}
	if took := time.Since(began); took < 5*delay {
		t.Errorf("both had arrived after %v", took)
	}
}

// TestMTU asserts that the sender's kernel learns of a smaller MTU, and that a packet which may be fragmented arrives.
func TestMTU(t *testing.T) {
	p := New(t, 1)
	sender, receiver := pair(t, p)
	p.SetWeather(Weather{MTU: 700})
	content := bytes.Repeat([]byte("tide"), 300)
	send(t, sender, receiver, content) // must not be fragmented: Linux discovers the path's MTU
	await.Until(t, "refused", func() bool { return p.Stats().TooLarge == 1 })
	await.Until(t, "the kernel knows", func() bool {
		send(t, sender, receiver, content)
		return p.Stats().Delivered >= 3 // the ICMP message, and two fragments that the kernel has made
	})
	if got := receive(t, receiver); !bytes.Equal(got, content) {
		t.Errorf("%d bytes arrived, want %d", len(got), len(content))
	}
	p.SetWeather(Weather{MTU: 400})
	last := bytes.Repeat([]byte("last"), 300)
	send(t, sender, receiver, last) // in packets of 700 bytes that may be fragmented
	for got := content; !bytes.Equal(got, last); got = receive(t, receiver) {
		if !bytes.Equal(got, content) {
			t.Fatalf("%d altered bytes arrived", len(got))
		}
	}
	if n := p.Stats().Fragments; n < 3 {
		t.Errorf("the path made %d fragments", n)
	}
}
