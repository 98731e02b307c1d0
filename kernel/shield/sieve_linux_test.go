package shield

import (
	"math"
	"net"
	"net/netip"
	"slices"
	"testing"
)

// TestSieve has strangers and a known client send to sockets of both families, with first bytes and without.
func TestSieve(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		for _, possible := range []FirstBytes{{}, letters()} {
			conn := listen(t, address)
			to := conn.LocalAddr().(*net.UDPAddr)
			if to.IP.IsUnspecified() {
				to.IP = net.IPv4(127, 0, 0, 1) // an IPv4 client of a socket of both
			}
			player, err := net.DialUDP("udp", nil, to)
			if err != nil {
				t.Fatal(err)
			}
			defer player.Close()
			s := NewSieve(math.MaxUint32) // of whom hardly one passes
			s.Know(addrPort(player.LocalAddr()))
			if err := GuardPlainly(conn, possible, s); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				stranger, err := net.DialUDP("udp", nil, to)
				if err != nil {
					t.Fatal(err)
				}
				if !s.knows(addrPort(stranger.LocalAddr())) {
					_, _ = stranger.Write([]byte("stranger"))
				}
				_ = stranger.Close()
			}
			_, _ = player.Write([]byte("player"))
			_, _ = player.Write([]byte("1 more"))
			want := []string{"player"}
			if possible.any() {
				want = append(want, "1 more")
			}
			if got := received(t, conn); !slices.Equal(got, want) {
				t.Errorf("%s: received %q, want %q", address, got, want)
			}
		}
	}
}

func letters() (f FirstBytes) {
	f.Add('a', 'z')
	return f
}

// TestSieveLetsSomePass checks that the part of strangers who pass is about what was asked for.
func TestSieveLetsSomePass(t *testing.T) {
	conn := listen(t, "127.0.0.1:0")
	if err := GuardPlainly(conn, FirstBytes{}, NewSieve(4)); err != nil {
		t.Fatal(err)
	}
	stranger, err := net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	passed := 0
	for range 20 {
		for range 100 { // less than the buffer holds
			_, _ = stranger.Write([]byte("x"))
		}
		passed += len(received(t, conn))
	}
	if passed < 400 || passed > 600 { // 500 and 5 standard deviations
		t.Errorf("%d of 2000 passed, want one of 4", passed)
	}
}

// TestSieveKnowsMost: of 500 clients all are known, and of strangers one of 16 or so.
func TestSieveKnowsMost(t *testing.T) {
	s := NewSieve(1)
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 5000)
	}
	for i := range 500 {
		s.Know(at(i))
	}
	strangers := 0
	for i := range 500 {
		if !s.knows(at(i)) {
			t.Fatalf("%v is not known", at(i))
		}
	}
	for i := 500; i < 10_500; i++ {
		if s.knows(at(i)) {
			strangers++
		}
	}
	if strangers > 1000 {
		t.Errorf("%d of 10000 strangers are taken for known", strangers)
	}
}
