package relay

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// TestQueuedBytesHaveABound lets the queues of ten slow readers grow in turn, the smallest first. So no session ever
// has more than its share of the bytes that wait. All the same the bytes stay near the limit.
func TestQueuedBytesHaveABound(t *testing.T) {
	const players, most, size = 10, 1 << 20, 20 << 10
	w := newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6(), defaultRoute(raknet6()),
		func(s *Settings) {
			s.Bounds = []ratelimit.Limit{limit(ratelimit.QueuedBytes, ratelimit.Overall, most, 0, ratelimit.Disconnect)}
		})
	for range players {
		w.connect(codec.Hello{}).deaf = true
	}
	highest := 0
	for range 40 {
		for _, p := range w.servers[0].peers {
			if !p.gone() {
				w.send(p, codec.Message{Payload: bytes.Repeat([]byte{0x86}, size), Mode: codec.ReliableOrdered})
			}
			w.Run(10 * time.Millisecond)
			highest = max(highest, w.proxy.relay.guard.Counts().Queued)
		}
	}
	if limit := most + players*size; highest > limit || highest < most/2 || w.drops(stats.DropQueueFull) == 0 {
		t.Errorf("%d bytes were queued, want at most %d", highest, limit)
	}
}
