//go:build interop && linux

package interop_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/testkit/rtypegame"
)

// TestOddWorldPlayerHarmsNoOther has odd players visit R-Type servers, for TIDEGATE_ATTACK or some seconds. They send
// updates of a wrong length and of unknown entities, a server's instructions, and hellos in mid-game. The server hears
// only the forms of its own clients, as the sizes of the components are configured. A witness keeps the game's world.
func TestOddWorldPlayerHarmsNoOther(t *testing.T) {
	for stage, protocol := range map[rtypegame.Stage]string{
		rtypegame.Early: "rtype-16", rtypegame.Late: "rtype-32", rtypegame.Final: "rtype-final",
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			server := newRTypeServer(t, stage)
			heard := 0
			server.mu.Lock()
			server.hears = func(d []byte) {
				if heard++; !isGameClients(server.game, d) {
					t.Errorf("the server hears %x", d)
				}
			}
			server.mu.Unlock()
			between, at := rtypeProxy(t, protocol, server.socket.LocalAddr().String(),
				"[rtype.components]\nPosition = 2\nVelocity = 3\nHealth = 1\nControllable = 1\n")
			go ignore(between.journal)
			stop := make(chan struct{})
			world := &worldPlayer{server: server}
			world.tend(t, portOf(t, at.String()), stop)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			visits, played := 0, 0
			for end := time.Now().Add(attackTime(t)); time.Now().Before(end); visits++ {
				if visitWorldOddly(t, stage, at, rng) {
					played++
				}
			}
			world.check(t)
			close(stop)
			world.wait.Wait()
			server.mu.Lock()
			defer server.mu.Unlock()
			server.hears = nil
			world.client.mu.Lock()
			defer world.client.mu.Unlock()
			t.Logf("%d odd players, %d of them had a world; the server heard %d datagrams; the witness had %d frames",
				visits, played, heard, world.client.client.Frames)
			if world.client.client.Ended || played == 0 {
				t.Errorf("the witness was sent away: %v; %d odd players had a world", world.client.client.Ended, played)
			}
		})
	}
}

// isGameClients reports whether a client of the game would send a datagram to a server.
func isGameClients(game *rtypegame.Server, d []byte) bool {
	const update = 3
	stage := game.Stage
	switch {
	case len(d) == 0:
		return false
	case stage != rtypegame.Final && string(d) == "start":
		return true
	case stage == rtypegame.Early && len(d) == 1:
		return d[0] <= 0x0b // a key
	case stage == rtypegame.Final && d[0] != update:
		return len(d) == 1 && (d[0] == 0 || d[0] == 2) || len(d) == 3 && d[0] == 1 && d[2] == 0 && int(d[1]) < len(rtypeNames)
	}
	return d[0] == update && hasItsSize(game, d)
}

// hasItsSize reports whether an update is as long as its component.
func hasItsSize(game *rtypegame.Server, d []byte) bool {
	width := 4
	var order binary.ByteOrder = binary.BigEndian
	switch game.Stage {
	case rtypegame.Early:
		width = 2
	case rtypegame.Final:
		order = binary.LittleEndian
	}
	head := 1 + width + 2
	if len(d) < head {
		return false
	}
	component := int(order.Uint16(d[1+width:]))
	if component >= len(rtypeNames) {
		return false
	}
	return len(d) == head+[]int{2, 3, 1, 1}[component]
}

// visitWorldOddly joins as the game's client does, sends odd datagrams, and reports whether there was a world.
func visitWorldOddly(t *testing.T, stage rtypegame.Stage, at netip.AddrPort, rng *rand.Rand) bool {
	t.Helper()
	from := fmt.Sprintf("127.%d.%d.%d:0", 1+rng.IntN(100), rng.IntN(256), 1+rng.IntN(250)) // its session stays a while
	p := newRTypePlayerFrom(t, stage, from, at)
	for range 100 {
		<-time.After(5 * time.Millisecond)
		p.mu.Lock()
		d := []byte{3, 0, 0, 0, 1, 0, 1, 1, 2, 3}
		for e := range p.client.World {
			p.client.Press(e, "Velocity", []byte{1, 2, 3})
			break
		}
		if pressed, ok := p.client.Next(); ok {
			d = pressed
		}
		p.say(at, oddInput(rng, d))
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.socket.Close()
	return len(p.client.World) > 0
}

// oddInput changes a client's datagram.
func oddInput(rng *rand.Rand, d []byte) []byte {
	d = append([]byte{}, d...)
	switch rng.IntN(10) {
	case 0: // too short
		return d[:rng.IntN(len(d))]
	case 1: // too long
		return append(d, make([]byte, 1+rng.IntN(1000))...)
	case 2: // any other instruction, also a server's
		d[0] = byte(rng.IntN(16))
	case 3: // nothing that there is
		d[1+rng.IntN(len(d)-1)] = byte(rng.Uint32())
	case 4: // two in one datagram
		return append(d, d...)
	case 5:
		texts := []string{"start", "start\x00", "pong", "ping", rtypegame.Goodbye, "\xff\xfe", "s"}
		return []byte(texts[rng.IntN(len(texts))])
	case 6: // the lobby in mid-game
		return []byte{byte(rng.IntN(4)), byte(rng.IntN(8)), byte(rng.IntN(2))}[:1+rng.IntN(3)]
	case 7: // a key
		return []byte{byte(rng.Uint32())}
	}
	return d
}
