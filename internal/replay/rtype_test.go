package replay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tidegate/codec/codectest"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rtypegame"
)

// rtypeServer is the game's own server behind a socket. Its world has a player's ship.
type rtypeServer struct {
	*rtypegame.Server
	addr netip.AddrPort
	ship uint32
	mu   sync.Mutex // of Server
}

// position returns where the ship is.
func (s *rtypeServer) position() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.World[s.ship]["Position"])
}

// serveRType starts a server that has made and deleted some entities before.
func serveRType(t *testing.T, stage rtypegame.Stage, before int) *rtypeServer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	s := &rtypeServer{addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	s.Server = rtypegame.NewServer(stage, []string{"Health", "Position"}, func(to netip.AddrPort, d []byte) {
		_, _ = conn.WriteToUDPAddrPort(d, to)
	})
	for range before {
		s.Kill(s.Spawn(nil))
	}
	s.ship = s.Spawn(map[string][]byte{"Position": {0, 0}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2000)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.Receive(time.Now(), from, b[:n])
			s.Frame(time.Now().Add(time.Second)) // the count is due again
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

// recordRType plays the game's own client against its own server, and writes a capture. The client steers the ship.
func recordRType(t *testing.T, stage rtypegame.Stage, positions ...[]byte) string {
	t.Helper()
	client := netip.MustParseAddrPort("10.0.0.2:5000")
	var lines bytes.Buffer
	millis := 0.0
	write := func(from string, d []byte) {
		millis++
		line, _ := json.Marshal(codectest.Line{Millis: millis, From: from, Hex: hex.EncodeToString(d)})
		lines.Write(append(line, '\n'))
	}
	c := rtypegame.NewClient(stage, "Health", "Position")
	s := rtypegame.NewServer(stage, []string{"Health", "Position"}, func(_ netip.AddrPort, d []byte) {
		write("server", d)
		c.Receive(d)
	})
	ship := s.Spawn(map[string][]byte{"Position": {0, 0}})
	send := func() {
		for d, ok := c.Next(); ok; d, ok = c.Next() {
			write("client", d)
			s.Receive(time.Time{}, client, d)
		}
	}
	for i := range 5 { // the last game counts its components several times
		send()
		s.Frame(time.Time{}.Add(time.Duration(i) * time.Second))
	}
	for _, position := range positions {
		c.Press(ship, "Position", position)
		send()
	}
	if got := s.World[ship]["Position"]; !bytes.Equal(got, positions[len(positions)-1]) {
		t.Fatalf("the capture's ship is at %x", got)
	}
	path := filepath.Join(t.TempDir(), "game.jsonl")
	if err := os.WriteFile(path, append([]byte(`{"protocol":"rtype"}`+"\n"), lines.Bytes()...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRTypeGames plays games of the real client to real servers that have given the ship another number.
func TestRTypeGames(t *testing.T) {
	for name, stage := range map[string]rtypegame.Stage{
		"early": rtypegame.Early, "late": rtypegame.Late, "final": rtypegame.Final,
	} {
		t.Run(name, func(t *testing.T) {
			path := recordRType(t, stage, []byte{1, 1}, []byte{1, 2}, []byte{1, 3})
			s := serveRType(t, stage, 5)
			report, err := play(t, path, s.addr, unchanged)
			if err != nil {
				t.Fatal(err)
			}
			if one := report.Conversations[0]; one.Sent != 3 || len(one.Unsent) > 0 {
				t.Errorf("%+v", one)
			}
			await.Until(t, "the ship is where it went", func() bool { return bytes.Equal(s.position(), []byte{1, 3}) })
		})
	}
}

// TestNamedTooEarly counts messages that name something that this server has not made.
func TestNamedTooEarly(t *testing.T) {
	path := recordRType(t, rtypegame.Late, []byte{1, 1})
	s := serveRType(t, rtypegame.Late, 0)
	s.mu.Lock()
	s.Kill(s.ship)
	s.mu.Unlock()
	report, err := play(t, path, s.addr, unchanged)
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Conversations[0].Unsent[errUnmade.Error()]; n != 1 || report.Same {
		t.Errorf("%+v", report)
	}
}
