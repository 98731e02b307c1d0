package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// TestComeBackToAFullServer: a player that leaves a full server and comes back at once finds its place. Its goodbye is
// doubted meanwhile. A server that stays full refuses the player, once it has been asked three times.
func TestComeBackToAFullServer(t *testing.T) {
	for _, test := range []struct{ latency, most time.Duration }{
		{time.Millisecond, time.Second}, {100 * time.Millisecond, 2500 * time.Millisecond},
	} {
		w := newWorld(t, 1, simnet.Weather{Latency: test.latency}, riptide22(), defaultRoute(riptide22()))
		places, asked := 1, 0
		w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind != codec.Asked {
				return
			}
			if asked++; places == 0 {
				p.conn.Close(now, codec.Goodbye{Reason: codec.ServerFull})
				return
			}
			places--
			p.conn.Admit(now, 7)
		}
		w.SetTap(func(_, to netip.AddrPort, d []byte) { // the library believes a Disconnect at once
			if to == serverAddr && d[0]&15 == 5 {
				places++
			}
		})
		first := w.connect(codec.Hello{})
		w.Run(3 * time.Second)
		first.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
		w.Run(20 * time.Millisecond)
		begun := w.Now()
		second := w.connect(codec.Hello{})
		if took := w.Now().Sub(begun); took > test.most {
			t.Errorf("latency %v: the player is back after %v, want %v", test.latency, took, test.most)
		}
		asked = 0
		begun = w.Now()
		third := w.join(codec.Hello{})
		w.await("refused", 5*time.Second, func() bool { return third.find(codec.Disconnected) != nil })
		if why := third.find(codec.Disconnected).Reason; why != codec.ServerFull || asked != 3 {
			t.Errorf("latency %v: refused for %v after %d questions and %v", test.latency, why, asked, w.Now().Sub(begun))
		}
		if second.gone() {
			t.Errorf("latency %v: the player inside is gone", test.latency)
		}
	}
}
