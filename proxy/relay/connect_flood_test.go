package relay

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
	"tidegate/session"
)

// TestConnectFloodLeavesServersIdle floods the proxy with valid Connects of every protocol whose handshake proves
// addresses before it ends. Each Connect has another source that never answers (lsalzman/enet issue 278). By default
// the server hears of none, not even of sources that ask three times. A present player loses no message. While the
// flood does not repeat itself, other players can join.
func TestConnectFloodLeavesServersIdle(t *testing.T) {
	for _, p := range udpMembers(nil) {
		if p.Spec().Proof != codec.ProvedConnect {
			continue
		}
		for _, asks := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v/asks %d times", p, asks), func(t *testing.T) { connectFlood(t, p, asks) })
		}
	}
}

func connectFlood(t *testing.T, p member, asks int) {
	const rate, span = 2000, 3 * time.Second // of Connects a second
	route := matrixRoute(p, p)
	route.Admit = policy.AdmitAuto
	w := newWorldWith(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, p, route, func(s *Settings) {
		s.Limits = session.Limits{Sessions: 1000, HalfOpen: 100}
		s.Bounds = []ratelimit.Limit{limit(ratelimit.Handshakes, ratelimit.Overall, 200, 400, ratelimit.Drop)}
	})
	player := w.connect(codec.Hello{})
	w.await("established", time.Second, func() bool { return len(w.servers[0].peers) == 1 })
	server, n := w.servers[0].peers[0], 0
	var flood func()
	flood = func() {
		for range rate / 100 {
			from := strangerAddr(n)
			connect, _ := p.Dial(w.Now(), listenerAddr, codec.Hello{}).Transmit(w.Now(), nil)
			for i := range asks {
				w.Inject(time.Duration(i)*500*time.Millisecond, from, listenerAddr, bytes.Clone(connect))
			}
			n++
		}
		w.After(10*time.Millisecond, flood)
	}
	flood()
	said := 0
	for begin := w.Now(); w.Now().Sub(begin) < span; said++ {
		w.say(&player.peer, p, p, route, said)
		w.Run(20 * time.Millisecond)
	}
	w.Run(time.Second)
	if got := heard(t, server, p, p, route); len(got) != said {
		t.Errorf("%d of the player's %d messages came", len(got), said)
	}
	if w.proxy.dialed != 1 || len(w.servers[0].peers) != 1 {
		t.Errorf("%d forged Connects: the server was asked %d times, want once for the player", n, w.proxy.dialed)
	}
	if asks > 1 {
		return
	}
	begin := w.Now()
	late := w.join(codec.Hello{})
	w.await("in", 5*time.Second, func() bool { return late.find(codec.Connected) != nil || late.gone() })
	if late.gone() {
		late = w.join(codec.Hello{}) // RUDP's library asks once, so the player tries again
		w.await("in", 5*time.Second, func() bool { return late.find(codec.Connected) != nil })
	}
	t.Logf("a new player got in after %v", w.Now().Sub(begin))
}
