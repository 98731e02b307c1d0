package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// TestPlayersAreExcusedInAFlood asserts that a Riptide player stays in a flood, though the proxy cannot read its
// acknowledgements. Without a flood the player is given up.
func TestPlayersAreExcusedInAFlood(t *testing.T) {
	for _, flooded := range []bool{false, true} {
		w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), defaultRoute(riptide22()))
		p := w.connect(codec.Hello{})
		w.Run(time.Second)
		r := w.proxy.relay
		if flooded {
			r.InputDrained()
			for range mostBacklog + 1 {
				w.proxy.Receive(w.Now(), strangerAddr(1), listenerAddr, []byte("x"))
			}
		}
		w.SetPath(p.addr, listenerAddr, simnet.Weather{Loss: 1})
		w.send(w.servers[0].peers[0], codec.Message{Payload: []byte("hello"), Mode: codec.Reliable, HasID: true})
		w.Run(1500 * time.Millisecond)
		w.SetPath(p.addr, listenerAddr, simnet.Weather{Latency: 5 * time.Millisecond})
		w.Run(believed)
		if gone := w.servers[0].peers[0].gone(); gone == flooded {
			t.Errorf("flooded: %t; the session is over: %t", flooded, gone)
		}
	}
}
