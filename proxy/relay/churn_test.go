package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/testkit/heavy"
)

// TestChurn has players come from one port with one GUID, one after the other, over a path that loses one datagram in
// fifty. Most of them vanish without a word, some of them before their own connection was complete. Each of them gets
// in, and players that stay get all their echoes in order.
func TestChurn(t *testing.T) {
	worlds := []struct {
		seed    uint64
		players int
	}{{3, 125}}
	if heavy.Runs() {
		for seed := range uint64(3) {
			worlds = append(worlds, worlds[0])
			worlds[seed+1].seed, worlds[seed+1].players = seed, 170
		}
	}
	for _, world := range worlds {
		t.Run(fmt.Sprint(world.seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(world.seed, 5))
			weather := simnet.Weather{Latency: 10 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.02}
			w := newWorld(t, world.seed, weather, raknet6(), defaultRoute(raknet.New(raknet.Options{Name: "bedrock"})))
			w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
				switch ev.Kind {
				case codec.Asked:
					p.conn.Admit(now, 1)
				case codec.Received:
					_ = p.conn.Send(now, ev.Message)
				}
			}
			for i := range world.players {
				w.churn(rng, byte(i))
			}
		})
	}
}

// churn has a player join, play and vanish.
func (w *world) churn(rng *rand.Rand, number byte) {
	p := w.joinFrom(playerAddr(0), codec.Hello{Identity: 7})
	if !w.RunUntil(20*time.Second, func() bool { return p.find(codec.Connected) != nil || p.gone() }) || p.gone() {
		w.t.Errorf("player %d is not in", number)
	}
	count := 5 + rng.IntN(60)
	for k := range count {
		w.send(&p.peer, codec.Message{Mode: codec.ReliableOrdered, Payload: []byte{0x86, byte(k), number}})
		if rng.IntN(4) == 0 {
			w.Run(time.Duration(rng.IntN(10)) * time.Millisecond)
		}
	}
	if rng.IntN(3) > 0 {
		w.RunUntil(15*time.Second, func() bool { return p.count(codec.Received) == count })
		for k, m := range p.received() {
			if m.Payload[1] != byte(k) || m.Payload[2] != number {
				w.t.Errorf("player %d: echo %d is % x", number, k, m.Payload)
			}
		}
		if got := p.count(codec.Received); got != count {
			w.t.Errorf("player %d: %d of %d echoes", number, got, count)
		}
	}
	if rng.IntN(3) == 0 {
		p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
		w.Run(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
	w.Remove(p.addr)
	if rng.IntN(2) == 0 {
		w.Run(time.Duration(rng.IntN(60)) * time.Millisecond)
	}
}
