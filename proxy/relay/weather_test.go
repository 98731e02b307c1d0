package relay

import (
	"fmt"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/riptide"
	"tidegate/proxy/bridge"
)

// TestManySeedsOfBadWeather asserts that every reliable message comes back exactly once and unchanged in any weather.
func TestManySeedsOfBadWeather(t *testing.T) {
	seeds := uint64(50)
	if testing.Short() {
		seeds = 10
	}
	bad := simnet.Weather{Loss: 0.2, Duplication: 0.1, Latency: 10 * time.Millisecond, Jitter: 100 * time.Millisecond}
	quality := riptide.New(riptide.Options{IgnoreQuality: true})
	for _, c := range []struct {
		name      string
		clients   codec.Protocol
		upstreams codec.Protocol
		mode      codec.Mode
	}{
		{"riptide to riptide", quality, quality, codec.Reliable},
		{"riptide to raknet", quality, raknet6(), codec.Reliable},
		{"raknet to riptide", raknet6(), quality, codec.ReliableOrdered},
		{"raknet to raknet", raknet6(), raknet6(), codec.ReliableOrdered},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range seeds {
				echoInWeather(t, seed, bad, c.clients, c.upstreams, c.mode)
			}
		})
	}
}

func echoInWeather(t *testing.T, seed uint64, weather simnet.Weather, clients, upstreams codec.Protocol,
	mode codec.Mode) {
	const messages = 40
	w := newWorld(t, seed, simnet.Weather{Latency: 10 * time.Millisecond}, clients, defaultRoute(upstreams))
	p := w.connect(codec.Hello{})
	w.SetWeather(weather)
	for i := range messages {
		w.send(&p.peer, codec.Message{
			Payload: numbered(clients, i), Mode: mode, ID: uint16(i), HasID: clients.Spec().IDs == codec.IDBeside,
		})
		w.Run(20 * time.Millisecond)
	}
	w.RunUntil(time.Minute, func() bool { return len(p.received()) >= messages || p.gone() })
	w.Run(5 * time.Second)
	seen := make(map[string]int)
	for _, m := range p.received() {
		seen[string(m.Payload)]++
	}
	for i := range messages {
		if n := seen[string(numbered(clients, i))]; n != 1 {
			t.Fatalf("seed %d: message %d came back %d times; %d in all", seed, i, n, len(p.received()))
		}
	}
}

// enveloped returns a message as a RakNet game writes it for the default route.
func enveloped(payload []byte, id uint16) []byte {
	wrapping := bridge.WrappingOf(raknet6().Spec(), riptide22().Spec(), &defaultRoute(raknet6()).Bridge)
	return wrapping.Wrap(nil, codec.Message{Payload: payload, ID: id}).Payload
}

// numbered returns message i as a player of a protocol sends it. A RakNet player writes the envelope itself.
func numbered(clients codec.Protocol, i int) []byte {
	payload := fmt.Appendf(nil, "message %d", i)
	if clients.Spec().IDs == codec.IDBeside {
		return payload
	}
	return enveloped(payload, uint16(i))
}
