//go:build interop

package interop_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testkit/freeport"
	"tidegate/internal/testkit/rtypegame"
)

// The game of TestRTypeGame: what it tells each player is 6,000 instructions a second.
const (
	rtypePlayers  = 8
	rtypeEntities = 100
	rtypeFrames   = 60 // a second
	rtypeTime     = 5 * time.Second
)

var rtypeNames = []string{"Position", "Velocity", "Health", "Controllable"}

// TestRTypeGame plays with eight of the game's own clients through the real binary with its default limits. The
// clients say their hello and nothing more. They hear the server's instructions and have its world in the end.
func TestRTypeGame(t *testing.T) {
	for stage, protocol := range map[rtypegame.Stage]string{rtypegame.Late: "rtype-32", rtypegame.Final: "rtype-final"} {
		t.Run(protocol, func(t *testing.T) { rtypeGame(t, stage, protocol) })
	}
}

func rtypeGame(t *testing.T, stage rtypegame.Stage, protocol string) {
	server := newRTypeServer(t, stage)
	proxy, address := rtypeProxy(t, protocol, server.socket.LocalAddr().String())
	var players []*rtypePlayer
	for range rtypePlayers {
		players = append(players, newRTypePlayer(t, stage, address))
	}
	frames := server.play(rtypeTime)
	time.AfterFunc(time.Second, func() { _ = server.socket.Close() })
	server.wait.Wait()
	proxy.stop(t)
	used := proxy.cmd.ProcessState
	t.Logf("%v of processor time, %v of it the kernel's", used.UserTime()+used.SystemTime(), used.SystemTime())
	for i, p := range players {
		p.mu.Lock()
		d := rtypegame.Compare(server.world(), server.unmask(p.client.World))
		if d.Missing+d.Ghosts+d.Components > 0 || p.client.Frames < frames*2/3 { // the last game's start a second late
			t.Errorf("player %d: %+v of %d entities, %d of %d frames", i, d, len(server.game.World), p.client.Frames, frames)
		}
		t.Logf("player %d: %d datagrams, %d of %d frames, %+v", i, p.datagrams, p.client.Frames, frames, d)
		p.mu.Unlock()
	}
}

// rtypeProxy runs the binary as shipped, with more tables, and returns where it listens.
func rtypeProxy(t *testing.T, protocol, server string, more ...string) (*proxy, netip.AddrPort) {
	t.Helper()
	p, address := openTidegate(t, nil, fmt.Sprintf(`
[[listener]]
name = "public"
address = "127.0.0.1:0"
protocols = [%q]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
[[upstream]]
name = "arena"
protocol = %q
servers = [%q]
[log]
format = "json"
[admin]
listen = "off"
`, protocol, protocol, server)+strings.Join(more, ""))
	return p, netip.MustParseAddrPort(address)
}

// rtypeServer is the game's server on a socket.
type rtypeServer struct {
	socket *net.UDPConn
	mu     sync.Mutex
	game   *rtypegame.Server
	hears  func(d []byte) // may be nil
	wait   sync.WaitGroup
}

func newRTypeServer(t *testing.T, stage rtypegame.Stage) *rtypeServer {
	t.Helper()
	return newRTypeServerAt(t, stage, freeport.Loopback(t).String())
}

func newRTypeServerAt(t *testing.T, stage rtypegame.Stage, address string) *rtypeServer {
	t.Helper()
	s := &rtypeServer{socket: rtypeSocketAt(t, address)}
	s.game = rtypegame.NewServer(stage, rtypeNames, func(to netip.AddrPort, d []byte) {
		_, _ = s.socket.WriteToUDPAddrPort(d, to) // losses show in the worlds
	})
	s.wait.Go(func() {
		for b := make([]byte, 2048); ; {
			n, from, err := s.socket.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			if s.hears != nil {
				s.hears(b[:n])
			}
			s.game.Receive(time.Now(), from, b[:n])
			s.mu.Unlock()
		}
	})
	return s
}

// play plays for a time, and returns how many frames that were.
func (s *rtypeServer) play(life time.Duration) (frames int) {
	ticker := time.NewTicker(time.Second / rtypeFrames)
	defer ticker.Stop()
	for end := time.Now().Add(life); time.Now().Before(end); frames++ {
		now := <-ticker.C
		s.mu.Lock()
		if len(s.game.World) < rtypeEntities {
			e := s.game.Spawn(map[string][]byte{"Health": {100}, "Velocity": {1, 2, 3}})
			s.game.Update(e, "Position", []byte{byte(e)})
		}
		for e := range s.game.World {
			s.game.Update(e, "Position", []byte{byte(frames), byte(frames >> 8)})
		}
		s.game.Frame(now)
		s.mu.Unlock()
	}
	return frames
}

func (s *rtypeServer) world() rtypegame.World {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.game.World.Clone()
}

// unmask gives a client's entities the numbers that they have at the server. It finds the mask by the smallest and the
// largest number: no other mask fits all entities.
func (s *rtypeServer) unmask(w rtypegame.World) rtypegame.World {
	for e := range w {
		unmasked := make(rtypegame.World)
		for other := range w {
			unmasked[other^e] = w[other]
		}
		if _, ok := unmasked[1]; ok && len(unmasked) == len(w) {
			best := true
			for other := range unmasked {
				best = best && other < 1<<8
			}
			if best && rtypegame.Compare(s.world(), unmasked).Missing == 0 {
				return unmasked
			}
		}
	}
	return w
}

// rtypePlayer is the game's client on a socket.
type rtypePlayer struct {
	mu        sync.Mutex
	socket    *net.UDPConn
	client    *rtypegame.Client
	datagrams int
}

func newRTypePlayer(t *testing.T, stage rtypegame.Stage, to netip.AddrPort) *rtypePlayer {
	t.Helper()
	return newRTypePlayerFrom(t, stage, "127.0.0.1:0", to)
}

func newRTypePlayerFrom(t *testing.T, stage rtypegame.Stage, from string, to netip.AddrPort) *rtypePlayer {
	t.Helper()
	socket := rtypeSocketAt(t, from)
	p := &rtypePlayer{client: rtypegame.NewClient(stage, rtypeNames...), socket: socket}
	speak := func() {
		for d, ok := p.client.Next(); ok; d, ok = p.client.Next() {
			_, _ = socket.WriteToUDPAddrPort(d, to)
		}
	}
	speak()
	go func() {
		for b := make([]byte, 2048); ; {
			n, _, err := socket.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.datagrams++
			p.client.Receive(b[:n])
			speak()
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *rtypePlayer) say(to netip.AddrPort, d []byte) { _, _ = p.socket.WriteToUDPAddrPort(d, to) }

func rtypeSocketAt(t *testing.T, address string) *net.UDPConn {
	t.Helper()
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	_ = socket.SetReadBuffer(8 << 20)
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}
