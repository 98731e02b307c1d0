package shield

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/allocs"
)

// shut leaves room for a number of strangers' datagrams, and prevents refills.
func (g *Gate) shut(room int64) { g.cell.room, g.cell.filled = room, math.MaxInt64/2 }

// gated returns a socket with a Gate, and a client.
func gated(t *testing.T, s *Shield) (*Gate, *net.UDPConn, *net.UDPConn) {
	t.Helper()
	conn := listen(t, "127.0.0.1:0")
	gate := s.Gate(0)
	if err := s.Guard(conn, FirstBytes{}, gate); err != nil {
		t.Fatal(err)
	}
	client, err := net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return gate, conn, client
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.UDPAddr).AddrPort() }

// TestGate makes strangers send until their room is full, before a known client sends, also from the client's own
// address.
func TestGate(t *testing.T) {
	s := newShield(t, Options{})
	gate, conn, player := gated(t, s)
	port := addrPort(conn.LocalAddr()).Port()
	gate.Know(addrPort(player.LocalAddr()), port)
	gate.shut(3)
	say := func(want ...string) {
		t.Helper()
		for i := range 5 {
			sendFrom(t, "127.0.0.1", conn.LocalAddr(), fmt.Append(nil, "stranger ", i))
		}
		if _, err := player.Write([]byte("player")); err != nil {
			t.Fatal(err)
		}
		if got := received(t, conn, len(want)); !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
	}
	say("stranger 0", "stranger 1", "stranger 2", "player")
	say("player")
	gate.shut(1)
	say("stranger 0", "player")
	if got, want := tally(t, s).Sockets, (Tally{Passed: 7, StrangerLimit: 11}); got != want {
		t.Errorf("counters are %v, want %v", got, want)
	}
	gate.Forget(addrPort(player.LocalAddr()), port)
	say()
	gate.Know(addrPort(player.LocalAddr()), port+1) // at another listener
	say()
}

// TestGateFollowsItsLoop checks that everything passes until the loop reads, and then as many datagrams as it can
// handle. More pass when it has read them and time has passed, or after a long time.
func TestGateFollowsItsLoop(t *testing.T) {
	s := newShield(t, Options{})
	gate, _, stranger := gated(t, s)
	clock := monotonic(t)
	flood := func(what string, want uint64) {
		t.Helper()
		before := tally(t, s).Sockets[Passed]
		for range 2 * gateRoom {
			if _, err := stranger.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if got := tally(t, s).Sockets[Passed] - before; got != want {
			t.Errorf("%s: %d passed, want %d", what, got, want)
		}
	}
	flood("nobody has read yet", 2*gateRoom)
	gate.Drained()
	gate.cell.filled = clock + int64(time.Hour)
	flood("the first may pass", gateRoom)
	gate.cell.filled = monotonic(t) - int64(gateEvery)
	gate.cell.drained = 0
	flood("not read, and not long ago", 0)
	gate.Drained()
	flood("read", gateRoom)
	gate.cell.filled = clock + int64(time.Hour)
	gate.Drained()
	flood("read a moment ago", 0)
	gate.cell.drained, gate.cell.filled = 0, clock-int64(gatePatience)
	flood("not read for long", gateRoom)
}

// monotonic returns the clock of the programs.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// TestNoGate calls all methods of a nil Gate, as a loop without a Gate does.
func TestNoGate(t *testing.T) {
	var none *Gate
	none.Drained()
	none.Know(netip.AddrPort{}, 0)
	none.Forget(netip.AddrPort{}, 0)
	if newShield(t, Options{Loops: 2}).Gate(2) != nil {
		t.Error("a loop that there is not has a gate")
	}
}

// TestGateAllocatesNothing checks the calls of every turn and of every session.
func TestGateAllocatesNothing(t *testing.T) {
	s := newShield(t, Options{})
	gate, client := s.Gate(0), netip.MustParseAddrPort("192.0.2.1:5000")
	n := allocs.PerRun(100, func() {
		gate.Drained()
		gate.Know(client, 7777)
		if s.Known() != 1 {
			t.Fatalf("%d are known, want 1", s.Known())
		}
		gate.Forget(client, 7777)
	})
	if n != 0 || s.Known() != 0 {
		t.Errorf("%v allocations, and %d are still known", n, s.Known())
	}
}

// TestGateOfAnInterface checks that XDP drops strangers while no loop's socket has room.
func TestGateOfAnInterface(t *testing.T) {
	for _, family := range []struct{ player, stranger, listener string }{
		{"192.0.2.1:5000", "192.0.2.1:5001", "203.0.113.1:7777"},
		{"[2001:db8::1]:5000", "[2001:db8::2]:5000", "[2001:db8:1::1]:7777"},
	} {
		s := newShield(t, Options{Loops: 2})
		at := netip.MustParseAddrPort(family.listener)
		first, second := s.Gate(0), s.Gate(1)
		first.Know(netip.MustParseAddrPort(family.player), at.Port())
		program, err := s.interfaceProgram(&guarded{meter: s.sockets}, []Listener{{Addr: at}})
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		for _, step := range []struct {
			what          string
			first, second int64 // room
			from          string
			want          int
		}{
			{"room at both", 1, 1, family.stranger, xdpPass},
			{"room at one", 0, 1, family.stranger, xdpPass},
			{"room at none", 0, 0, family.stranger, xdpDrop},
			{"a player", 0, 0, family.player, xdpPass},
		} {
			first.shut(step.first)
			second.shut(step.second)
			verdict, _, err := program.Test(frame(step.from, family.listener, []byte("x")))
			if err != nil || int(verdict) != step.want {
				t.Errorf("%s: verdict %d, %v, want %d", step.what, verdict, err, step.want)
			}
		}
		second.cell.filled = 0 // long ago: the socket would refill
		if verdict, _, err := program.Test(frame(family.stranger, family.listener, nil)); err != nil || verdict != xdpPass {
			t.Errorf("room that is due: verdict %d, %v", verdict, err)
		}
	}
}
