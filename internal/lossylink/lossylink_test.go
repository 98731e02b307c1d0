package lossylink

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// TestLinkLosesByDirection sends datagrams to an echo server, with all dropped in one direction or none.
func TestLinkLosesByDirection(t *testing.T) {
	for _, c := range []struct {
		loss          Loss
		carried, lost uint64
	}{
		{Loss{}, 2, 0},
		{Loss{ToServer: 1}, 0, 1},
		{Loss{ToClients: 1}, 1, 1},
		{Loss{ToClients: 1, ToServer: 1, Spared: 1}, 1, 1},
	} {
		server, client := listen(t), listen(t)
		l, err := StartAt(loopback, server.LocalAddr().(*net.UDPAddr).AddrPort(), 1, c.loss)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.WriteToUDPAddrPort([]byte("question"), l.Addr()); err != nil {
			t.Fatal(err)
		}
		if c.loss.ToServer == 0 || c.loss.Spared > 0 {
			_, from := read(t, server)
			if _, err := server.WriteToUDPAddrPort([]byte("answer"), from); err != nil {
				t.Fatal(err)
			}
		}
		if c.lost == 0 {
			if got, from := read(t, client); got != "answer" || from != l.Addr() {
				t.Errorf("%q came from %v", got, from)
			}
		}
		want := Stats{Carried: c.carried, Lost: c.lost}
		await.Until(t, "all counted", func() bool { return l.Stats() == want })
		if got := l.Stop(); got != want {
			t.Errorf("%+v: %+v, want %+v", c.loss, got, want)
		}
	}
}

// TestLinkLosesItsShare sends many datagrams one way.
func TestLinkLosesItsShare(t *testing.T) {
	const n, loss = 2000, 0.2
	server, client := listen(t), listen(t)
	l, err := StartAt(loopback, server.LocalAddr().(*net.UDPAddr).AddrPort(), 1, Loss{ToServer: loss})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	for sent := range uint64(n) {
		if _, err := client.WriteToUDPAddrPort([]byte("x"), l.Addr()); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the datagram is counted", func() bool { s := l.Stats(); return s.Carried+s.Lost == sent+1 })
	}
	if share := float64(l.Stats().Lost) / n; share < 0.17 || share > 0.23 {
		t.Errorf("%v are lost, want %v", share, loss)
	}
}

// TestLinkDelays sends a datagram to an echo server: there and back it takes at least two delays.
func TestLinkDelays(t *testing.T) {
	const delay = 30 * time.Millisecond
	server, client := listen(t), listen(t)
	l, err := StartAt(loopback, server.LocalAddr().(*net.UDPAddr).AddrPort(), 1, Loss{Delay: delay})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	began := time.Now()
	for _, text := range []string{"first", "second"} {
		if _, err := client.WriteToUDPAddrPort([]byte(text), l.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"first", "second"} {
		got, from := read(t, server)
		if got != want {
			t.Errorf("%q came, want %q", got, want)
		}
		if _, err := server.WriteToUDPAddrPort([]byte(got), from); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"first", "second"} {
		if got, _ := read(t, client); got != want {
			t.Errorf("%q came back, want %q", got, want)
		}
	}
	if took := time.Since(began); took < 2*delay {
		t.Errorf("there and back in %v, want at least %v", took, 2*delay)
	}
}

func listen(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func read(t *testing.T, c *net.UDPConn) (text string, from netip.AddrPort) {
	t.Helper()
	var b [64]byte
	_ = c.SetReadDeadline(time.Now().Add(await.Patience))
	n, from, err := c.ReadFromUDPAddrPort(b[:])
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n]), netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
}
