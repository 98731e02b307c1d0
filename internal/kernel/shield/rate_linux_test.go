package shield

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// TestRate checks that a source is held to its burst, over all its ports, and that other sources are not.
func TestRate(t *testing.T) {
	s := newShield(t, Options{PacketRate: 1, Burst: 3}) // the test takes less than the second until the next refill
	conn := listen(t, "127.0.0.1:0")
	if err := s.Guard(conn, FirstBytes{}, nil); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		sendFrom(t, "127.3.0.1", conn.LocalAddr(), []byte("flood"))
	}
	sendFrom(t, "127.3.0.2", conn.LocalAddr(), []byte("other"))
	if got := fmt.Sprint(received(t, conn, 4)); got != "[flood flood flood other]" {
		t.Errorf("received %v", got)
	}
	if got, want := tally(t, s).Sockets, (Tally{Passed: 4, Rate: 2}); got != want {
		t.Errorf("counters are %v, want %v", got, want)
	}
}

// TestRateRefills checks that a source may send again after a pause.
func TestRateRefills(t *testing.T) {
	s := newShield(t, Options{PacketRate: 1000, Burst: 1})
	conn := listen(t, "127.0.0.1:0")
	if err := s.Guard(conn, FirstBytes{}, nil); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // a system call takes far less than a millisecond, all together far more
		sendFrom(t, "127.3.0.1", conn.LocalAddr(), []byte("x"))
	}
	got := tally(t, s).Sockets
	if got[Passed] < 2 || got[Rate] == 0 || got[Passed]+got[Rate] != 1000 {
		t.Errorf("counters are %v, want some passed and some not", got)
	}
}

// TestSourcesAreBounded sends from more sources than places. No source is evicted, and sources that share a place share
// the limit.
func TestSourcesAreBounded(t *testing.T) {
	s := newShield(t, Options{PacketRate: 1, Burst: 1, Sources: 64})
	conn := listen(t, "127.0.0.1:0")
	if err := s.Guard(conn, FirstBytes{}, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		addr := netip.MustParseAddr("127.4.0.0")
		for range 500 {
			addr = addr.Next()
			sendFrom(t, addr.String(), conn.LocalAddr(), []byte("x"))
		}
	}
	// Of 500 sources spread over 64 places, nearly every place gets some.
	if got := tally(t, s).Sockets; got[Passed] < 56 || got[Passed] > 64 || got[Passed]+got[Rate] != 1000 {
		t.Errorf("counters are %v, want one passed of each place", got)
	}
}

// TestMergedDatagramsCount sends runs of datagrams as one packet to a socket that accepts merged packets.
func TestMergedDatagramsCount(t *testing.T) {
	s := newShield(t, Options{PacketRate: 1, Burst: 10})
	conn := listen(t, "127.0.0.1:0")
	if err := s.Guard(conn, FirstBytes{}, nil); err != nil {
		t.Fatal(err)
	}
	sender, err := net.Dial("udp", conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	udpOption(t, conn, 104, 1)                  // UDP_GRO
	udpOption(t, sender.(*net.UDPConn), 103, 4) // UDP_SEGMENT: 4 bytes each
	for range 4 {
		if _, err := sender.Write([]byte("aaaabbbbccccdddd")); err != nil {
			t.Fatal(err)
		}
	}
	// A run of four passes while there is room for one: the third run comes after 8 of 10.
	if got, want := tally(t, s).Sockets, (Tally{Passed: 12, Rate: 4}); got != want {
		t.Errorf("counters are %v, want %v", got, want)
	}
}

func udpOption(t *testing.T, conn *net.UDPConn, name, value int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_UDP, name, value) })
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		t.Skipf("the kernel merges no datagrams: %v", set)
	}
}
