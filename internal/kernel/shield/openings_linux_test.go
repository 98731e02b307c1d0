package shield

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// opening is a set in which 'o' only opens a session, and every first byte is possible.
func opening() (f FirstBytes) {
	f.openings.add('o')
	return f
}

// openingLetters is opening for a listener of letters.
func openingLetters() FirstBytes {
	f := letters()
	f.openings.add('o')
	return f
}

// TestClientBitmapChecksOpenings checks that an opening counts as a stranger's, also from a known client's address: it
// passes only in its partition's turn.
func TestClientBitmapChecksOpenings(t *testing.T) {
	for _, first := range []FirstBytes{opening(), openingLetters()} {
		conn := listen(t, "127.0.0.1:0")
		player, err := net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer player.Close()
		s := NewClientBitmap(2)
		s.Know(addrPort(player.LocalAddr()))
		for range 2 {
			s.Next()
			if _, err := GuardClassic(conn, first, s); err != nil {
				t.Fatal(err)
			}
			want := []string{"play"}
			if s.hash(addrPort(player.LocalAddr()))>>wordBits%s.partitions == s.turn {
				want = []string{"open", "play"}
			}
			_, _ = player.Write([]byte("open"))
			_, _ = player.Write([]byte("play"))
			if got := received(t, conn, len(want)); !slices.Equal(got, want) {
				t.Errorf("received %q, want %q", got, want)
			}
		}
	}
}

// TestGateChecksOpenings checks that an opening passes only while there is room for strangers.
func TestGateChecksOpenings(t *testing.T) {
	for _, first := range []FirstBytes{opening(), openingLetters()} {
		s := newShield(t, Options{})
		gate, conn, player := gated(t, s)
		if err := s.Guard(conn, first, gate); err != nil {
			t.Fatal(err)
		}
		gate.Know(addrPort(player.LocalAddr()), addrPort(conn.LocalAddr()).Port())
		gate.shut(2)
		for _, text := range []string{"o 1", "play", "o 2", "o 3", "play"} {
			if _, err := player.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := received(t, conn, 4), []string{"o 1", "play", "o 2", "play"}; !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
		if got, want := tally(t, s).Sockets, (Tally{Passed: 4, StrangerLimit: 1}); got != want {
			t.Errorf("counters are %v, want %v", got, want)
		}
	}
}

// TestInterfaceChecksOpenings is the same for XDP.
func TestInterfaceChecksOpenings(t *testing.T) {
	const player, listener = "192.0.2.1:5000", "203.0.113.1:7777"
	s := newShield(t, Options{})
	gate, at := s.Gate(0), netip.MustParseAddrPort(listener)
	gate.Know(netip.MustParseAddrPort(player), at.Port())
	program, err := s.interfaceProgram(&guarded{meter: s.sockets}, []Listener{{Addr: at, First: openingLetters()}})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, step := range []struct {
		room int64
		text string
		want int
	}{{1, "open", xdpPass}, {0, "open", xdpDrop}, {0, "play", xdpPass}} {
		gate.shut(step.room)
		verdict, _, err := program.Test(frame(player, listener, []byte(step.text)))
		if err != nil || int(verdict) != step.want {
			t.Errorf("%q, room for %d: verdict %d, %v, want %d", step.text, step.room, verdict, err, step.want)
		}
	}
}
