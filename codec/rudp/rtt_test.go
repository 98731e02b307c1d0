package rudp

import (
	"testing"
	"time"

	"tidegate/codec/codectest"
)

func TestRTTSmooths(t *testing.T) {
	var r rtt
	for _, step := range []struct{ sample, want time.Duration }{
		{100 * ms, 100 * ms}, {180 * ms, 110 * ms}, {30 * ms, 100 * ms},
	} {
		if r.sample(step.sample); time.Duration(r) != step.want {
			t.Errorf("after %v: %v, want %v", step.sample, time.Duration(r), step.want)
		}
	}
}

// A packet that acknowledges nothing new tells nothing of the round trip, however late it comes.
func TestRTTOfOldNews(t *testing.T) {
	c := newServer(t, Options{AppID: 1})
	c.Admit(start, 1)
	one(t, c, start)
	for s := range seq(10) {
		if err := c.Receive(start.Add(time.Duration(s+1)*50*ms), keepAlive(s+1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Stats().RTT; got != 50*ms {
		t.Errorf("RTT %v, want 50 ms", got)
	}
}

func TestRTT(t *testing.T) {
	p := newPair(t, Options{Rate: 20})
	for range 100 {
		p.now = p.now.Add(50 * ms)
		p.client.Advance(p.now)
		d := one(t, p.client, p.now)
		p.now = p.now.Add(30 * ms)
		_ = p.server.Receive(p.now, d)
		p.server.Advance(p.now)
		for _, back := range codectest.Transmit(p.server, p.now) {
			_ = p.client.Receive(p.now.Add(10*ms), back)
		}
	}
	if got := p.client.Stats().RTT; got < 39*ms || got > 41*ms {
		t.Errorf("RTT %v, want 40 ms", got)
	}
}
