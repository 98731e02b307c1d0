package riptide

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestGoodbyeOfAPlayer: a player that has left is gone after 0.6 s, so that its place is free. A forged goodbye ends no
// session of a player that answers, or that is known to stand still and comes back.
func TestGoodbyeOfAPlayer(t *testing.T) {
	for _, c := range []struct {
		what        string
		still, back time.Duration // how long before the goodbye the player is still, and when it is there again
		want        time.Duration // when the session is over; zero: never
	}{
		{what: "has left", back: time.Hour, want: 700 * ms},
		{what: "is there"},
		{what: "stands still", still: 1500 * ms, back: 2 * time.Second},
		{what: "stood still, and has left", still: 1500 * ms, back: time.Hour, want: 2500 * ms},
	} {
		eachVersion(t, func(t *testing.T, v Version) {
			p := newPair(t, Options{Version: v})
			play := func(d time.Duration, answers bool) {
				for end := p.now.Add(d); p.now.Before(end) && p.server.state == connected; p.now = p.now.Add(10 * ms) {
					p.server.Advance(p.now)
					if answers {
						p.client.Advance(p.now)
						p.exchange()
					}
					codectest.Transmit(p.server, p.now)
				}
			}
			play(3*time.Second, true)
			play(c.still, false)
			said := p.now
			_ = p.server.Receive(p.now, p.client.dialect.append(nil, kindDisconnect, nil, nil, 0))
			play(c.back, false)
			play(5*time.Second, true)
			switch lasted := p.now.Sub(said); {
			case c.want == 0 && p.server.state != connected:
				t.Errorf("a player that %s: over after %v", c.what, lasted)
			case c.want > 0 && (p.server.state == connected || lasted > c.want+100*ms):
				t.Errorf("a player that %s: after %v not over, want %v", c.what, lasted, c.want)
			}
			if c.want == 0 && hasEnded(p.atClient, p.atServer) {
				t.Errorf("a player that %s: the session has ended", c.what)
			}
		})
	}
}

func hasEnded(all ...[]codec.Event) bool {
	for _, events := range all {
		for _, e := range events {
			if e.Kind == codec.Disconnected {
				return true
			}
		}
	}
	return false
}
