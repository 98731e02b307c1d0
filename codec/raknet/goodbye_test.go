package raknet

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
)

// TestForgedGoodbyeUnderLoss forges goodbyes of a silent player on paths with losses. Few are believed, and
// lost pings are repeated once the player has answered others.
func TestForgedGoodbyeUnderLoss(t *testing.T) {
	const forged = 1000
	for _, test := range []struct {
		loss  float64
		delay time.Duration // each way
		most  int           // goodbyes that may be believed
	}{{0.1, 0, 0}, {0.1, 25 * ms, 0}, {0.3, 0, 5}, {0.3, 25 * ms, 5}} {
		rng := rand.New(rand.NewPCG(7, 1))
		believed := 0
		var l *link
		for range forged {
			if l == nil || has(l.toServer, codec.Disconnected) {
				l = connectOver(newLink(t, Options{}), test.delay)
			}
			l.carried = 0
			l.drop = func(bool, []byte) bool { return rng.Float64() < test.loss }
			if err := l.server.Receive(l.now, []byte{idDisconnectionNotification}); err != nil {
				t.Fatal(err)
			}
			l.wait(2 * time.Second)
			l.drop = nil
			l.wait(goodbyeDoubt)
			switch {
			case has(l.toServer, codec.Disconnected):
				believed++
			case l.server.goodbye.Heard, !l.server.sender.settled():
				t.Fatal("the doubt does not end, or pings are not repeated")
			}
		}
		if believed > test.most {
			t.Errorf("loss of %v, delay of %v: %d of %d forged goodbyes believed, want at most %d",
				test.loss, test.delay, believed, forged, test.most)
		}
	}
}

// TestGoodbyeFreesMemory: a peer that has left is acknowledged, and its connection gives its workspace back.
func TestGoodbyeFreesMemory(t *testing.T) {
	l := newConnected(t, Options{})
	l.client.Close(l.now, codec.Goodbye{Reason: codec.Closed})
	l.exchange()
	ending(t, l.toClient)
	if l.server.phase != connected || l.server.workspace != &noWorkspace {
		t.Errorf("phase %v, or a workspace while nothing is under way", l.server.phase)
	}
}

// TestGoodbyePings counts the pings to a client that has left, and when they leave. No other turn is needed.
func TestGoodbyePings(t *testing.T) {
	l := newConnected(t, Options{})
	l.client.Close(l.now, codec.Goodbye{Reason: codec.Closed})
	l.exchange()
	left, pings, turns := l.now, 0, 0
	for l.server.phase == connected {
		l.now = l.server.NextTimeout()
		l.server.Advance(l.now)
		turns++
		for _, ok := l.server.Transmit(l.now, nil); ok && l.server.phase == connected; _, ok = l.server.Transmit(l.now, nil) {
			pings++
		}
	}
	if waited := l.now.Sub(left); pings != 6 || turns != 4 || waited > goodbyePatience+goodbyeTick+10*ms {
		t.Errorf("%d pings, %d turns, %v; want 6, 4, and at most 0.66 s", pings, turns, waited)
	}
}
