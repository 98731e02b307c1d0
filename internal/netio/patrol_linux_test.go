package netio

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// bouncer is a Handler that may refuse everything.
type bouncer struct{ all, got, refused int }

func (b *bouncer) Datagram(Socket, netip.AddrPort, []byte) {
	b.got++
	b.refused += b.all
}
func (b *bouncer) Failed(Socket, error) {}
func (b *bouncer) Refused() int         { return b.refused }

// guarded is a listener, who floods it, and who refuses that or takes it.
type guarded struct {
	*epollPoller
	*bouncer
	listener *epollSocket
	flood    *net.UDPConn
}

func newGuarded(t *testing.T, b *bouncer) *guarded {
	t.Helper()
	p, err := newNative(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	g := &guarded{epollPoller: p.(*epollPoller), bouncer: b}
	g.listen(t, "127.0.0.1:0")
	return g
}

func (g *guarded) listen(t *testing.T, addr string) {
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

// send sends so many datagrams, which are there when it returns, and has a turn take them.
func (g *guarded) send(t *testing.T, n int) {
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

func (g *guarded) turn(t *testing.T) {
	t.Helper()
	g.refused = 0
	if err := g.Wait(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	g.Receive(g)
}

// A listener whose datagrams are refused is read without the kernel's asking until they have become few, and then with it.
func TestPatrol(t *testing.T) {
	g := newGuarded(t, &bouncer{all: 1})
	g.send(t, floodedTurn)
	if !g.listener.round.on {
		t.Fatal("a flooded listener is still watched")
	}
	for range 2 * calmTurns {
		g.send(t, calmRead)
	}
	if !g.listener.round.on {
		t.Fatal("a flooded listener is watched again")
	}
	for range calmTurns {
		g.turn(t)
	}
	if g.listener.round.on || len(g.patrol.sockets) != 0 {
		t.Fatal("a calm listener is not watched")
	}
	g.send(t, 1)
}

// Many datagrams are no flood if they are welcome.
func TestNoPatrol(t *testing.T) {
	g := newGuarded(t, new(bouncer))
	g.send(t, 2*floodedTurn)
	if g.listener.round.on {
		t.Error("a listener that has much to do is not watched")
	}
}

// A listener that is handed over while it is flooded is read no more.
func TestPatrolMute(t *testing.T) {
	g := newGuarded(t, &bouncer{all: 1})
	g.send(t, floodedTurn)
	g.StopReceiving(g.listener)
	if _, err := g.flood.Write([]byte("let me in")); err != nil {
		t.Fatal(err)
	}
	before := g.got
	for range 2 {
		g.turn(t)
	}
	if g.got != before || g.stats.Errors != 0 {
		t.Errorf("a muted listener received %d datagrams, with %d errors", g.got-before, g.stats.Errors)
	}
}

// A listener may close while it is flooded, and its descriptor serve another.
func TestPatrolCloses(t *testing.T) {
	g := newGuarded(t, &bouncer{all: 1})
	g.send(t, floodedTurn)
	g.listener.Close()
	g.turn(t)
	if len(g.patrol.sockets) != 0 {
		t.Error("a closed listener is still read")
	}
	g.listen(t, "127.0.0.1:0")
	g.send(t, 1)
}
