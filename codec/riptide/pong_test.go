package riptide

import (
	"testing"
	"time"

	"tidegate/codec/codectest"
)

// TestPongsComeAsLateAsTheServers: a client's heartbeat is answered after the round trip to the server, before the next
// heartbeat, and at once if another one comes first.
func TestPongsComeAsLateAsTheServers(t *testing.T) {
	for far, want := range map[time.Duration]time.Duration{
		0: 0, ms: 0, 40 * ms: 40 * ms, 5 * time.Second: 750 * ms,
	} {
		p := newPair(t, Options{})
		p.server.FarRTT(far)
		sent := p.now
		answers := func() int { return len(codectest.Transmit(p.server, p.now)) }
		ask := func(ping uint8) {
			h := heartbeat{ping: ping, rtt: -1}
			if err := p.server.Receive(p.now, h.append(v22, nil)); err != nil {
				t.Fatal(err)
			}
		}
		ask(7)
		if want > 0 {
			if n := answers(); n != 0 || !p.server.NextTimeout().Equal(sent.Add(want)) {
				t.Errorf("far %v: %d answers at once, then due after %v", far, n, p.server.NextTimeout().Sub(sent))
			}
			p.now = sent.Add(want)
			p.server.Advance(p.now)
		}
		if n := answers(); n != 1 {
			t.Errorf("far %v: %d answers after %v, want 1", far, n, want)
		}
		for ping := range uint8(3) {
			ask(8 + ping)
		}
		if n := answers(); n < 2 {
			t.Errorf("far %v: %d answers to three heartbeats at once", far, n)
		}
	}
}
