//go:build interop && linux

package interop_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rtypegame"
)

// RUDP and R-Type have no independent library here. Their honest players are our own codec, and the game's client as
// written again from its sources. Both have listeners of their own.

// moreListeners adds listeners for RUDP and R-Type to a route's configuration.
func moreListeners(t *testing.T, to route, rtypeServer string) string {
	t.Helper()
	return to.configuration() + fmt.Sprintf(`
[[listener]]
name = "packets"
address = "127.0.0.1:%s"
protocols = ["rudp"]
route = "packets"
[[listener]]
name = "world"
address = "127.0.0.1:%s"
protocols = ["rtype-32"]
route = "world"
[[route]]
name = "packets"
upstream = "arena"
ordered = "fast"
allow_lossy = true
packet_id = %d
[[route]]
name = "world"
upstream = "world"
[[upstream]]
name = "world"
protocol = "rtype-32"
servers = [%q]
[rudp]
rate = %d
`, freePort(t), freePort(t), packetByte, rtypeServer, rudpRate)
}

const (
	rudpRate   = 30                     // a session survives while an acknowledgement takes less than 1.1 s
	rudpPause  = 100 * time.Millisecond // between two messages
	rudpLate   = 5 * time.Second        // a later echo is lost
	worldSize  = 10                     // entities of the game
	worldPause = 50 * time.Millisecond  // between two frames
	keyFrames  = 100                    // frames between two keys
)

// rudpMark begins each message of a rudpPlayer.
var rudpMark = []byte{packetByte, 0x52, 0x55, 0x44}

// rudpPlayer sends numbered messages and counts their echoes. It joins again when its session has ended.
type rudpPlayer struct {
	conn   codec.Conn
	socket net.Conn
	up     bool
	number uint32
	asked  map[uint32]time.Time // when a message was sent whose echo has not come
	spoke  time.Time
	echoed int
	lost   int
	ended  int // sessions that others ended
}

// playRUDP plays until stop is closed. Then it says goodbye, and sends its result.
func playRUDP(t *testing.T, port string, stop <-chan struct{}) <-chan *rudpPlayer {
	t.Helper()
	result := make(chan *rudpPlayer, 1)
	protocol := protocols.Find("rudp").NewCalm(registry.Use{})
	p := &rudpPlayer{asked: make(map[uint32]time.Time)}
	go func() {
		for b := make([]byte, codec.MaxDatagram); ; {
			select {
			case <-stop:
				result <- p
				return
			default:
			}
			if p.conn == nil && !p.dial(protocol, port) {
				continue
			}
			p.step(b)
		}
	}()
	return result
}

func (p *rudpPlayer) dial(protocol codec.Protocol, port string) bool {
	socket, err := net.Dial("udp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return false
	}
	p.socket, p.up = socket, false
	p.conn = protocol.Dial(time.Now(), netip.MustParseAddrPort(socket.RemoteAddr().String()), codec.Hello{})
	clear(p.asked)
	return true
}

// step reads one datagram, or waits for 5 ms, and handles all due work.
func (p *rudpPlayer) step(b []byte) {
	_ = p.socket.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	if n, err := p.socket.Read(b); err == nil {
		_ = p.conn.Receive(time.Now(), b[:n]) // refused datagrams are part of an attack
	}
	now := time.Now()
	p.conn.Advance(now)
	for e, ok := p.conn.Poll(); ok; e, ok = p.conn.Poll() {
		switch e.Kind {
		case codec.Connected:
			p.up = true
		case codec.Received:
			p.hear(e.Payload)
		case codec.Disconnected:
			if p.up {
				p.ended++
			}
			_ = p.socket.Close()
			p.conn = nil
			return
		}
	}
	p.speak(now)
	for d, ok := p.conn.Transmit(now, b[:0]); ok; d, ok = p.conn.Transmit(now, b[:0]) {
		_, _ = p.socket.Write(d) // a lost datagram is counted by its echo
	}
}

func (p *rudpPlayer) speak(now time.Time) {
	if !p.up || now.Sub(p.spoke) < rudpPause {
		return
	}
	p.spoke = now
	for n, at := range p.asked {
		if now.Sub(at) > rudpLate {
			p.lost++
			delete(p.asked, n)
		}
	}
	m := codec.Message{Mode: codec.Unreliable, Payload: binary.BigEndian.AppendUint32(rudpMark[:4:4], p.number)}
	if p.conn.Send(now, m) == nil {
		p.asked[p.number] = now
		p.number++
	}
}

// hear counts echoes. Several messages may come as one.
func (p *rudpPlayer) hear(payload []byte) {
	for ; len(payload) >= 8 && string(payload[:4]) == string(rudpMark); payload = payload[8:] {
		n := binary.BigEndian.Uint32(payload[4:])
		if _, ok := p.asked[n]; ok {
			p.echoed++
			delete(p.asked, n)
		}
	}
}

// worldPlayer is an R-Type player with its game.
type worldPlayer struct {
	server *rtypeServer
	client *rtypePlayer
	wait   sync.WaitGroup
}

// tend runs a small game for a player until stop is closed.
func (p *worldPlayer) tend(t *testing.T, port string, stop <-chan struct{}) {
	t.Helper()
	p.client = newRTypePlayer(t, rtypegame.Late, netipAt(port))
	p.wait.Go(func() {
		ticker := time.NewTicker(worldPause)
		defer ticker.Stop()
		for frame := 0; ; frame++ {
			select {
			case <-stop:
				return
			case now := <-ticker.C:
				p.server.frame(now, frame)
				if frame%keyFrames == 0 {
					p.client.press() // a silent player leaves after rtype.idle_timeout
				}
			}
		}
	})
	await.Until(t, "the R-Type player has a world", func() bool { return p.client.press() })
}

// frame plays one frame of a game with a few entities.
func (s *rtypeServer) frame(now time.Time, frame int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.game.World) < worldSize {
		s.game.Spawn(map[string][]byte{"Health": {100}})
	}
	for e := range s.game.World {
		s.game.Update(e, "Position", []byte{byte(frame), byte(frame >> 8)})
	}
	s.game.Frame(now)
}

// press has the client press a key, which proves its address, and reports whether it knows an entity to move.
func (p *rtypePlayer) press() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.client.World {
		p.client.Press(e, "Velocity", []byte{1, 2, 3})
		return true
	}
	return false
}

// check checks that the player still hears the game and has its world.
func (p *worldPlayer) check(t *testing.T) {
	t.Helper()
	frames := func() int {
		p.client.mu.Lock()
		defer p.client.mu.Unlock()
		return p.client.client.Frames
	}
	before := frames()
	await.Until(t, "the R-Type player hears the game", func() bool { return frames() > before+10 })
	p.client.mu.Lock()
	world := p.client.client.World.Clone()
	p.client.mu.Unlock()
	if d := rtypegame.Compare(p.server.world(), p.server.unmask(world)); d.Missing+d.Ghosts > 0 {
		t.Errorf("the R-Type player's world differs: %+v", d)
	}
}
