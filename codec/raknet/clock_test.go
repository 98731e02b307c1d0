package raknet

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

func timestamped(at uint64, rest string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{idTimestamp}, at), rest...)
}

func TestClockTrustsTheShortestRoundTrip(t *testing.T) {
	var k peerClock
	for i, step := range []struct {
		roundTrip      time.Duration
		sent, answered uint64
		want           uint64 // the peer's time 5000 in our clock
	}{
		{100 * ms, 1000, 2050, 4000},
		{10 * ms, 1100, 2110, 3995}, // asymmetric, but short
		{90 * ms, 1200, 2260, 3995},
		{90 * ms, 1300, 2360, 3995},
		{90 * ms, 1400, 2460, 3995},
		{90 * ms, 1500, 2560, 3995},
		{90 * ms, 1600, 2660, 3985}, // the short one is forgotten
	} {
		k.sample(step.roundTrip, step.sent, step.answered)
		b := timestamped(5000, "x")
		if k.adjust(b); !bytes.Equal(b, timestamped(step.want, "x")) {
			t.Errorf("step %d: adjusted to %x, want %d", i, b, step.want)
		}
	}
}

// TestClockLeavesTheRestAlone: only messages with a whole time are rewritten.
func TestClockLeavesTheRestAlone(t *testing.T) {
	var k peerClock
	k.sample(ms, 0, 1000)
	for _, b := range [][]byte{{}, {idTimestamp}, timestamped(5, "")[:8], gamePayload(20)} {
		before := bytes.Clone(b)
		if k.adjust(b); !bytes.Equal(b, before) {
			t.Errorf("%x became %x", before, b)
		}
	}
	k = peerClock{}
	b := timestamped(77, "x")
	if k.adjust(b); !bytes.Equal(b, timestamped(77, "x")) {
		t.Errorf("adjusted to %x before the first sample", b)
	}
}

// TestTimestampsAreOfTheReceiversClock: two peers with clocks an hour apart send each other their time, with and
// without a message behind it.
func TestTimestampsAreOfTheReceiversClock(t *testing.T) {
	net, client, server := newSim(t, simnet.Weather{Latency: 20 * ms, Jitter: 10 * ms}, time.Hour)
	for i := range 40 {
		for _, n := range []*simNode{client, server} {
			now := uint64(net.Now().Add(n.ahead).UnixMilli())
			n.send(t, net.Now(), codec.Message{Payload: timestamped(now, "at"[:i%3]), Mode: codec.Unreliable})
		}
		net.Run(100 * ms)
	}
	for _, n := range []*simNode{client, server} {
		if len(n.got) != 40 {
			t.Errorf("%v got %d messages, want 40", n.self, len(n.got))
		}
		for _, m := range n.got {
			said := time.UnixMilli(int64(binary.BigEndian.Uint64(m.payload[1:])))
			if age := m.at.Sub(said); age < 10*ms || age > 40*ms {
				t.Errorf("%v takes a message for %v old, want about 20 to 30 ms", n.self, age)
			}
		}
	}
}
