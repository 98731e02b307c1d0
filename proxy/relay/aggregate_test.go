package relay

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
)

// aggregated joins a Riptide player to a RakNet server that echoes.
func aggregated(t *testing.T) (w *world, p *player, server *peer) {
	route := defaultRoute(raknet6())
	route.Bridge.Envelope = policy.EnvelopeAggregate
	w = newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
	p = w.connect(codec.Hello{})
	w.Run(time.Second)
	return w, p, w.servers[0].peers[0]
}

// sendAtOnce gives the proxy all messages in one turn.
func (w *world) sendAtOnce(p *player, messages []codec.Message) {
	w.t.Helper()
	for _, m := range messages {
		if err := p.conn.Send(w.Now(), m); err != nil {
			w.t.Fatal(err)
		}
	}
	for b, ok := p.conn.Transmit(w.Now(), nil); ok; b, ok = p.conn.Transmit(w.Now(), nil) {
		w.proxy.Receive(w.Now(), p.addr, listenerAddr, b)
	}
}

// TestAggregatesThereAndBack sends messages of random modes, IDs and sizes to an echo, several in one turn. Each
// comes back unchanged, and they share envelopes on their way.
func TestAggregatesThereAndBack(t *testing.T) {
	w, p, server := aggregated(t)
	rng := rand.New(rand.NewPCG(3, 3))
	modes := []codec.Mode{codec.Unreliable, codec.Reliable, codec.Notify}
	sent := make(map[string]bool)
	total := 0
	mode := codec.Reliable
	for range 50 {
		var batch []codec.Message
		for range 1 + rng.IntN(12) {
			if rng.IntN(5) == 0 {
				mode = modes[rng.IntN(len(modes))]
			}
			m := codec.Message{Mode: mode, HasID: mode != codec.Notify, Payload: []byte{byte(total >> 8), byte(total)}} // unique
			for range rng.IntN(40) {
				m.Payload = append(m.Payload, byte(rng.Uint32()))
			}
			if m.HasID {
				m.ID = uint16(rng.Uint32())
			}
			if rng.IntN(10) == 0 {
				m.Payload = append(m.Payload, make([]byte, rng.IntN(1100))...)
			}
			batch = append(batch, m)
			sent[key(m)] = true
			total++
		}
		w.sendAtOnce(p, batch)
		w.Run(200 * time.Millisecond)
	}
	w.Run(time.Second)
	got := p.received()
	for _, m := range got {
		if !sent[key(m)] {
			t.Errorf("%v message %d of %d bytes came back unlike any that was sent", m.Mode, m.ID, len(m.Payload))
		}
		delete(sent, key(m))
	}
	if len(sent) != 0 || len(got) != total {
		t.Errorf("%d of %d came back, %d did not", len(got), total, len(sent))
	}
	if n := len(server.received()); n*2 > total {
		t.Errorf("the server got %d messages for %d", n, total)
	}
}

func key(m codec.Message) string {
	return string(append([]byte{byte(m.ID), byte(m.ID >> 8), boolByte(m.HasID)}, m.Payload...))
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// TestAggregateOnTheWire asserts that messages share an envelope where they may, and that their order stays.
func TestAggregateOnTheWire(t *testing.T) {
	w, p, server := aggregated(t)
	reliable := func(id uint16, payload []byte) codec.Message {
		return codec.Message{Mode: codec.Reliable, ID: id, HasID: true, Payload: payload}
	}
	large := bytes.Repeat([]byte{7}, 1190)
	w.sendAtOnce(p, []codec.Message{reliable(1, []byte("a")), reliable(2, nil), reliable(3, large),
		reliable(4, []byte("d"))})
	w.Run(time.Second)
	want := [][]byte{
		{0x86, 0, 3, 0, 1, 0, 'a', 2, 0, 2, 0},
		append([]byte{0x86, 0, 0xa8, 4, 3, 0}, large...),
		{0x86, 0, 3, 0, 4, 0, 'd'},
	}
	got := server.received()
	if len(got) != len(want) {
		t.Fatalf("the server got %d messages, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i].Payload, want[i]) {
			t.Errorf("message %d is %.20x, want %.20x", i, got[i].Payload, want[i])
		}
	}
}

// TestAggregateLeavesBeforeTheGoodbye asserts that messages of a session's last turn arrive.
func TestAggregateLeavesBeforeTheGoodbye(t *testing.T) {
	w, p, server := aggregated(t)
	w.sendAtOnce(p, []codec.Message{{Mode: codec.Reliable, ID: 1, HasID: true, Payload: []byte("last words")}})
	w.proxy.relay.Drain(w.Now())
	w.await("gone", 5*time.Second, server.gone)
	if got := server.received(); len(got) != 1 || !bytes.HasSuffix(got[0].Payload, []byte("last words")) {
		t.Errorf("the server got %d messages, want its last", len(got))
	}
}
