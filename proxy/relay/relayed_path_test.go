package relay

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/allocs"
)

// TestEncryptedRakNetPassesUntouched sends real datagrams of a RakNet 4.081 client and server with LIBCAT_SECURITY
// through a Relay. The Relay admits the client by the plain handshake, and changes no later byte.
func TestEncryptedRakNetPassesUntouched(t *testing.T) {
	names, err := filepath.Glob("../../codec/raknet/testdata/secured/*.jsonl")
	names = append(names, "../../codec/raknet/testdata/security_client_without_libcat.jsonl")
	if err != nil || len(names) == 1 {
		t.Fatalf("no captures: %v", err)
	}
	for _, name := range names {
		p := newPlainRelay(t, raknet6(), unchanged)
		datagrams := conversation(t, name)
		for _, d := range datagrams {
			if d.From == "client" {
				p.up(0, 0, serverAddr, d.wire)
			} else {
				p.down(0, 0, serverAddr, d.wire)
			}
		}
		if s := p.relay.Snapshot(p.now).Sessions[0]; int(s.FromClient.Messages+s.FromUpstream.Messages) != len(datagrams) {
			t.Errorf("%s: %d datagrams passed of %d", name, s.FromClient.Messages+s.FromUpstream.Messages, len(datagrams))
		}
	}
}

// spoken is one datagram of a capture.
type spoken struct {
	From string `json:"from"` // client or server
	Hex  string `json:"hex"`
	wire []byte
}

// conversation reads a capture: JSON Lines, with a heading and one line for each datagram.
func conversation(t *testing.T, name string) (all []spoken) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Scan() // the heading
	for lines.Scan() {
		var d spoken
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.wire, err = hex.DecodeString(d.Hex); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
	if lines.Err() != nil || len(all) < 2 {
		t.Fatalf("%s: %d datagrams, %v", name, len(all), lines.Err())
	}
	return all
}

// swallower is Sockets that accept every datagram and keep none.
type swallower struct {
	*relayNode
	bytes int
}

func (s *swallower) Forward(_ netio.Socket, _ netip.AddrPort, datagram []byte) {
	s.bytes += len(datagram)
}

// busy makes a Relay with established sessions, each with its own socket.
func busy(t testing.TB, players int) (*plainRelay, *swallower) {
	p := newPlainRelay(t, Any, func(s *Settings) { s.Limits.Sessions, s.Limits.HalfOpen = players, players })
	for i := range players {
		server := [...]netip.AddrPort{serverAddr, secondAddr}[i%2]
		p.meet(i, i, server)
	}
	out := &swallower{relayNode: p.relayNode}
	p.relay.sockets.Sockets = out
	return p, out
}

func TestRelayedPathAllocatesNothing(t *testing.T) {
	p, out := busy(t, 2)
	listenerSocket, up := p.sockets[listenerAddr], p.sockets[upstreamSocketAddr(0)]
	datagram := make([]byte, 200)
	n := allocs.PerRun(1000, func() {
		p.now = p.now.Add(1e6)
		p.relay.Receive(p.now, listenerSocket, playerAddr(0), datagram)
		p.relay.Receive(p.now, up, serverAddr, datagram)
		p.relay.Advance(p.now)
		p.relay.Flush(p.now)
	})
	if n != 0 {
		t.Errorf("%v allocations a round trip", n)
	}
	if want := 1001 * 400; out.bytes != want {
		t.Errorf("%d bytes passed, want %d", out.bytes, want)
	}
}

// BenchmarkPlain measures the Relay's own share of a datagram in ModeRelay, without sockets or kernel.
func BenchmarkPlain(b *testing.B) {
	const players = 1000
	p, _ := busy(b, players)
	listenerSocket, datagram := p.sockets[listenerAddr], make([]byte, 200)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.relay.Receive(p.now, listenerSocket, playerAddr(i%players), datagram)
	}
}
