package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/enet"
)

// TestClientReturnsToItsPort kills a client of ENet and lets another one start on the same port at once, near and far.
// It plays within a moment, as without a proxy. The server loses the old one.
func TestClientReturnsToItsPort(t *testing.T) {
	for _, latency := range []time.Duration{time.Millisecond, 80 * time.Millisecond} {
		for _, quiet := range []time.Duration{0, 200 * time.Millisecond, 3 * time.Second} {
			w := newWorld(t, 1, simnet.Weather{Latency: latency}, enet.New(enet.Options{Seed: [32]byte{1}}),
				defaultRoute(enet.New(enet.Options{Seed: [32]byte{2}})))
			old := w.connect(codec.Hello{})
			w.Run(time.Second)
			for n := range 3 {
				w.Remove(old.addr)
				w.Run(quiet)
				begun := w.Now()
				old = w.joinFrom(old.addr, codec.Hello{})
				w.await("connected", 10*time.Second, func() bool { return old.find(codec.Connected) != nil })
				w.send(&old.peer, codec.Message{Mode: codec.ReliableOrdered, Payload: []byte("hello")})
				w.await("answered", 10*time.Second, func() bool { return old.find(codec.Received) != nil })
				if took := w.Now().Sub(begun); took > 150*time.Millisecond+12*latency {
					t.Errorf("latency %v, return %d after %v: it took %v", latency, n, quiet, took)
				}
			}
			w.Run(8 * time.Second)
			gone := 0
			for _, p := range w.servers[0].peers {
				if p.gone() {
					gone++
				}
			}
			sessions, came := w.proxy.relay.table.Len(), len(w.servers[0].peers)
			if sessions != 1 || came != 4 || gone != 3 {
				t.Errorf("latency %v: %d sessions; the server has seen %d clients, %d left", latency, sessions, came, gone)
			}
		}
	}
}
