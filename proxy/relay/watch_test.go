package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
)

// TestWatchCountsKinds asserts that a watch counts messages by direction, mode and ID, and ends with the session.
func TestWatchCountsKinds(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(raknet6()))
	p := w.connect(codec.Hello{})
	r := w.proxy.relay
	var e *Entry
	for one := range r.table.All {
		e = one
	}
	r.watches[e.Value.serial] = &watch{e, make(map[MessageKind]*stats.Traffic)}
	for range 3 {
		w.send(&p.peer, codec.Message{Payload: []byte("12345"), Mode: codec.Reliable, ID: 7, HasID: true})
		w.Run(100 * time.Millisecond)
	}
	got := watched(w.Now(), r, e)
	if len(got.Messages) != 2 || got.Messages[0].From != policy.FromClient || got.Messages[0].ID != 7 ||
		got.Messages[0].Traffic != (stats.Traffic{Messages: 3, Bytes: 15}) || got.Messages[1].Messages != 3 {
		t.Errorf("%+v", got.Messages)
	}
	m := codec.Message{Mode: codec.Unreliable, HasID: true}
	for i := range 2 * maxKinds {
		m.ID = uint16(i)
		r.watches.count(e.Value.serial, policy.FromClient, &m)
	}
	kinds := r.watches[e.Value.serial].kinds
	if other := kinds[MessageKind{policy.FromClient, codec.Unreliable, otherKindID}]; len(kinds) != maxKinds+1 ||
		other == nil || other.Messages < maxKinds {
		t.Errorf("%d kinds, other %+v", len(kinds), other)
	}
	if n := allocs.PerRun(100, func() { r.watches.count(e.Value.serial, policy.FromClient, &m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.Run(time.Minute)
	if len(r.watches) != 0 {
		t.Error("the watch outlives its session")
	}
}
