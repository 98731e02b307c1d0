package shield

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// TestClientBitmap makes strangers and a known client send to sockets of both families, with first bytes and without.
func TestClientBitmap(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		for _, possible := range []FirstBytes{{}, letters()} {
			conn := listen(t, address)
			to := conn.LocalAddr().(*net.UDPAddr)
			if to.IP.IsUnspecified() {
				to.IP = net.IPv4(127, 0, 0, 1) // an IPv4 client of a dual-stack socket
			}
			player, err := net.DialUDP("udp", nil, to)
			if err != nil {
				t.Fatal(err)
			}
			defer player.Close()
			s := NewClientBitmap(mostPartitions)
			s.Know(addrPort(player.LocalAddr()))
			if _, err := GuardClassic(conn, possible, s); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				stranger, err := net.DialUDP("udp", nil, to)
				if err != nil {
					t.Fatal(err)
				}
				if !s.passes(addrPort(stranger.LocalAddr())) {
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
			if got := received(t, conn, len(want)); !slices.Equal(got, want) {
				t.Errorf("%s: received %q, want %q", address, got, want)
			}
		}
	}
}

// passes reports whether a client's datagram passes now.
func (s *ClientBitmap) passes(client netip.AddrPort) bool {
	return s.knows(client) || s.hash(client)>>wordBits%s.partitions == s.turn
}

func letters() (f FirstBytes) {
	f.Add('a', 'z')
	return f
}

// TestClientBitmapGivesTurns checks that a stranger passes during the turn of its partition, once in each round.
func TestClientBitmapGivesTurns(t *testing.T) {
	const partitions = 4
	conn := listen(t, "127.0.0.1:0")
	s := NewClientBitmap(partitions)
	for range 8 {
		stranger, err := net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		turns := 0
		for range partitions {
			s.Next()
			if _, err := GuardClassic(conn, FirstBytes{}, s); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				_, _ = stranger.Write([]byte("x"))
			}
			want := 0
			if s.passes(addrPort(stranger.LocalAddr())) {
				want = 10
			}
			heard := len(received(t, conn, want))
			if heard != want {
				t.Fatalf("%d passed of 10, want %d", heard, want)
			}
			if heard > 0 {
				turns++
			}
		}
		if turns != 1 {
			t.Errorf("%d turns in a round", turns)
		}
	}
}

// TestClientBitmapKnowsMost checks that all clients are known, and few strangers, however many clients there are.
func TestClientBitmapKnowsMost(t *testing.T) {
	for clients, most := range map[int]int{0: 0, 3: 500, 60: 500, 500: 1000, 2000: 3000} {
		s := NewClientBitmap(1)
		s.Clear(clients)
		testClientBitmapKnows(t, s, clients, most)
	}
}

// testClientBitmapKnows adds clients, and checks that at most the given number of 10,000 strangers match.
func testClientBitmapKnows(t *testing.T, s *ClientBitmap, clients, most int) {
	t.Helper()
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 5000)
	}
	for i := range clients {
		s.Know(at(i))
	}
	strangers := 0
	for i := range clients {
		if !s.knows(at(i)) {
			t.Fatalf("%v is not known", at(i))
		}
	}
	for i := clients; i < clients+10_000; i++ {
		if s.knows(at(i)) {
			strangers++
		}
	}
	if strangers > most {
		t.Errorf("%d clients: %d of 10000 strangers are taken for known", clients, strangers)
	}
}

// knows reports whether a client's datagrams always pass.
func (s *ClientBitmap) knows(client netip.AddrPort) bool {
	h := s.hash(client)
	return s.words[s.word(h)]>>(h%32)&1 == 1
}
