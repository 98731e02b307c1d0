package raknet

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// TestReorderingIsNoLoss: a path that only changes the order by up to a millisecond takes a megabyte nearly as fast as
// one that keeps it.
func TestReorderingIsNoLoss(t *testing.T) {
	for _, trip := range []time.Duration{60 * ms, 300 * ms} {
		took := func(jitter time.Duration) time.Duration {
			net, client, server := newSim(t, simnet.Weather{Latency: trip / 2}, 0)
			net.SetWeather(simnet.Weather{Latency: trip / 2, Jitter: jitter})
			net.Run(5 * time.Second)
			start := net.Now()
			server.send(t, start, codec.Message{Mode: codec.ReliableOrdered, Payload: gamePayload(1_000_000)})
			for len(client.got) == 0 && net.Now().Sub(start) < time.Minute {
				net.Run(ms)
			}
			return net.Now().Sub(start)
		}
		inOrder, reordered := took(0), took(ms)
		t.Logf("round trip of %v: %v in order, %v reordered", trip, inOrder, reordered)
		if reordered > inOrder*3/2+20*ms {
			t.Errorf("round trip of %v: %v reordered, %v in order", trip, reordered, inOrder)
		}
	}
}
