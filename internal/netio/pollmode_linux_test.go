package netio

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// refuser is a Handler that may refuse everything.
type refuser struct{ all, got, refused int }

func (b *refuser) Datagram(Socket, netip.AddrPort, []byte) {
	b.got++
	b.refused += b.all
}
func (b *refuser) Failed(Socket, error) {}
func (b *refuser) Refused() int         { return b.refused }

// floodedListener is a listener, its flooding client, and its handler.
type floodedListener struct {
	*epollPoller
	*refuser
	listener *epollSocket
	flood    *net.UDPConn
}

func newFloodedListener(t *testing.T, b *refuser) *floodedListener {
	t.Helper()
	p, err := newNative(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	g := &floodedListener{epollPoller: p.(*epollPoller), refuser: b}
	g.listen(t, "127.0.0.1:0")
	return g
}

func (g *floodedListener) listen(t *testing.T, addr string) {
	t.Helper()
	s, err := g.Listen(netip.MustParseAddrPort(addr), SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g.listener = s.(*epollSocket)
	if g.flood, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.Addr())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.flood.Close() })
}

// send sends n datagrams, which have arrived when it returns. Then a turn takes them.
func (g *floodedListener) send(t *testing.T, n int) {
	t.Helper()
	for range n {
		if _, err := g.flood.Write([]byte("let me in")); err != nil {
			t.Fatal(err)
		}
	}
	before := g.got
	g.turn(t)
	if g.got != before+n {
		t.Fatalf("a turn took %d datagrams of %d", g.got-before, n)
	}
}

func (g *floodedListener) turn(t *testing.T) {
	t.Helper()
	g.refused = 0
	if err := g.Wait(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	g.Receive(g)
}

// TestPollMode checks that a listener whose datagrams are refused is in poll mode until they become few.
func TestPollMode(t *testing.T) {
	g := newFloodedListener(t, &refuser{all: 1})
	g.send(t, floodMinimum)
	if !g.listener.pollState.active {
		t.Fatal("a flooded listener is still watched")
	}
	for range 2 * calmTurns {
		g.send(t, calmRead)
	}
	if !g.listener.pollState.active {
		t.Fatal("a flooded listener is watched again")
	}
	for range calmTurns {
		g.turn(t)
	}
	if g.listener.pollState.active || len(g.pollMode.sockets) != 0 {
		t.Fatal("a calm listener is not watched")
	}
	g.send(t, 1)
}

// TestBusyIsNotFlooded checks that many accepted datagrams do not start poll mode.
func TestBusyIsNotFlooded(t *testing.T) {
	g := newFloodedListener(t, new(refuser))
	g.send(t, 2*floodMinimum)
	if g.listener.pollState.active {
		t.Error("a busy listener is not watched")
	}
}

// TestCloseInPollMode checks that a listener may close in poll mode, and that its descriptor may be used again.
func TestCloseInPollMode(t *testing.T) {
	g := newFloodedListener(t, &refuser{all: 1})
	g.send(t, floodMinimum)
	g.listener.Close()
	g.turn(t)
	if len(g.pollMode.sockets) != 0 {
		t.Error("a closed listener is still read")
	}
	g.listen(t, "127.0.0.1:0")
	g.send(t, 1)
}
