package bridge

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
)

// TestAggregatesAllocateNothing asserts that joining messages allocates nothing once the buffer exists.
func TestAggregatesAllocateNothing(t *testing.T) {
	o := &Options{Envelope: policy.EnvelopeAggregate, PacketID: 0x86, Queue: 1 << 20}
	b := New(riptide.New(riptide.Options{}), raknet.New(raknet.Options{}), o)
	c, to := NewCarrier(new(stats.Counters)), &Sender{Away: true}
	now, payload := time.Unix(1_700_000_000, 0), make([]byte, 50)
	step := func() {
		for range 3 {
			m := codec.Message{Mode: codec.Unreliable, ID: 9, HasID: true, Payload: payload}
			c.Carry(now, to, &b.ToServer, &m, nil)
		}
		if n := len(to.joint.message.Payload); n < 150 {
			t.Fatalf("%d bytes wait, want those of three messages", n)
		}
		to.joint.message.Payload = to.joint.message.Payload[:0] // the codec pays for sending
	}
	step()
	if n := allocs.PerRun(200, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
