//go:build interop && linux

package interop_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/codec"
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
protocols = ["rudp", "riptide-2.0"]
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
	echoPause  = 100 * time.Millisecond // between two messages
	echoLate   = 5 * time.Second        // a later echo of an unreliable message is lost
	worldSize  = 10                     // entities of the game
	worldPause = 50 * time.Millisecond  // between two frames
	keyFrames  = 100                    // frames between two keys
)

// echoMark begins each message of an echoPlayer.
var echoMark = []byte{packetByte, 0x52, 0x55, 0x44}

// echoPlayer is a player of our own codec of any protocol. It sends numbered messages and counts their echoes. It joins
// again when its session has ended.
type echoPlayer struct {
	protocol codec.Protocol
	stay     time.Duration // of each session, if not 0

	conn   codec.Conn
	socket net.Conn
	up     bool
	begun  time.Time // the session
	number uint32
	asked  map[uint32]time.Time // when a message was sent whose echo has not come
	spoke  time.Time
	heard  time.Time

	joined  int // sessions
	echoed  int
	lost    int
	ended   int           // sessions that others ended
	refused int           // attempts to join
	longest time.Duration // between two echoes of a session, or until it is joined
}

// playRUDP plays until stop is closed. Then it sends its result.
func playRUDP(t *testing.T, port string, stop <-chan struct{}) <-chan *echoPlayer {
	t.Helper()
	return (&echoPlayer{protocol: calmCodec("rudp")}).play(port, stop)
}

func (p *echoPlayer) play(port string, stop <-chan struct{}) <-chan *echoPlayer {
	result := make(chan *echoPlayer, 1)
	p.asked = make(map[uint32]time.Time)
	go func() {
		for b := make([]byte, codec.MaxDatagram); ; {
			select {
			case <-stop:
				result <- p
				return
			default:
			}
			if p.conn == nil && !p.dial(port) {
				continue
			}
			p.step(b)
		}
	}()
	return result
}

func (p *echoPlayer) dial(port string) bool {
	socket, err := net.Dial("udp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return false
	}
	p.socket, p.up, p.begun, p.heard = socket, false, time.Now(), time.Now()
	server := netip.MustParseAddrPort(socket.RemoteAddr().String())
	p.conn = p.protocol.Dial(p.begun, server, codec.Hello{Identity: rand.Uint64()})
	clear(p.asked)
	return true
}

// step reads one datagram, or waits for 5 ms, and handles all due work.
func (p *echoPlayer) step(b []byte) {
	_ = p.socket.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	if n, err := p.socket.Read(b); err == nil {
		_ = p.conn.Receive(time.Now(), b[:n]) // refused datagrams are part of an attack
	}
	now := time.Now()
	p.conn.Advance(now)
	for e, ok := p.conn.Poll(); ok; e, ok = p.conn.Poll() {
		switch e.Kind {
		case codec.Connected:
			p.up, p.joined = true, p.joined+1
			p.waited(now)
		case codec.Received:
			p.hear(now, e.Payload)
		case codec.Disconnected:
			switch {
			case !p.up:
				p.refused++
			case p.stay == 0:
				p.ended++
			}
			_ = p.socket.Close()
			p.conn = nil
			return
		}
	}
	p.speak(now)
	if p.stay > 0 && now.Sub(p.begun) > p.stay && p.up {
		p.conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	}
	for d, ok := p.conn.Transmit(now, b[:0]); ok; d, ok = p.conn.Transmit(now, b[:0]) {
		_, _ = p.socket.Write(d) // a lost datagram is counted by its echo
	}
}

func (p *echoPlayer) speak(now time.Time) {
	if !p.up || now.Sub(p.spoke) < echoPause {
		return
	}
	p.spoke = now
	s := p.protocol.Spec()
	late := echoLate
	if s.Modes.AnyReliable() {
		late = patience // a busy machine makes it late
	}
	for n, at := range p.asked {
		if now.Sub(at) > late {
			p.lost++
			delete(p.asked, n)
		}
	}
	m := codec.Message{
		Payload: binary.BigEndian.AppendUint32(echoMark[:4:4], p.number), ID: 7, HasID: s.IDs == codec.IDBeside,
	}
	for _, mode := range []codec.Mode{codec.Reliable, codec.ReliableOrdered} {
		if s.Modes.Has(mode) {
			m.Mode = mode // else unreliable
		}
	}
	if p.conn.Send(now, m) == nil {
		p.asked[p.number] = now
		p.number++
	}
}

// waited notes a wait that is over.
func (p *echoPlayer) waited(now time.Time) {
	p.longest, p.heard = max(p.longest, now.Sub(p.heard)), now
}

// hear counts echoes. Several messages may come as one.
func (p *echoPlayer) hear(now time.Time, payload []byte) {
	for ; len(payload) >= 8 && string(payload[:4]) == string(echoMark); payload = payload[8:] {
		p.waited(now)
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

	played        atomic.Int64 // frames
	before, heard int          // frames of the game, and that the player heard, until it had a world
}

// tend runs a small game for a player until stop is closed.
func (p *worldPlayer) tend(t *testing.T, port string, stop <-chan struct{}) {
	t.Helper()
	p.client = newRTypePlayer(t, p.server.game.Stage, netipAt(port))
	p.wait.Go(func() {
		ticker := time.NewTicker(worldPause)
		defer ticker.Stop()
		for frame := 0; ; frame++ {
			select {
			case <-stop:
				return
			case now := <-ticker.C:
				p.server.frame(now, frame)
				p.played.Add(1)
				if frame%keyFrames == 0 {
					p.client.press() // a silent player leaves after rtype.idle_timeout
				}
			}
		}
	})
	await.Until(t, "the R-Type player has a world", func() bool { return p.client.press() })
	p.before, p.heard = int(p.played.Load()), p.frames()
}

func (p *worldPlayer) frames() int {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.client.client.Frames
}

// lost returns how many frames the player has not heard, and of how many. The game has stopped.
func (p *worldPlayer) lost() (lost, all int) {
	<-time.After(echoPause) // for the last one
	all = int(p.played.Load()) - p.before
	return max(0, all-(p.frames()-p.heard)), all
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
	before := p.frames()
	await.Until(t, "the R-Type player hears the game", func() bool { return p.frames() > before+10 })
	p.client.mu.Lock()
	world := p.client.client.World.Clone()
	p.client.mu.Unlock()
	if d := rtypegame.Compare(p.server.world(), p.server.unmask(world)); d.Missing+d.Ghosts > 0 {
		t.Errorf("the R-Type player's world differs: %+v", d)
	}
}
