package raknet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// joinTime returns how long a client takes until both sides are connected, in the given network conditions.
func joinTime(t *testing.T, seed uint64, weather simnet.Weather) time.Duration {
	t.Helper()
	net := simnet.New(t, seed, weather)
	server := &simNode{self: linkServer, peer: linkClient, p: New(Options{})}
	client := &simNode{self: linkClient, peer: linkServer}
	client.conn = New(Options{}).Dial(net.Now(), linkServer, codec.Hello{})
	net.Add(server, linkServer)
	net.Add(client, linkClient)
	for !client.connected || !server.connected {
		net.Run(time.Millisecond)
		if net.Elapsed() > 20*time.Second {
			t.Fatalf("not connected after %v", net.Elapsed())
		}
	}
	return net.Elapsed()
}

// TestJoinsUnderLoss joins through lossy paths. Lost messages of the handshake are sent again after the round trips
// that the handshake has measured. With half a second instead, the rows were 501 ms, 401 ms and 1.7 s, 675 ms, 675 ms
// and 1.97 s.
func TestJoinsUnderLoss(t *testing.T) {
	for _, c := range []struct {
		latency  time.Duration
		loss     float64
		p50, p90 time.Duration
	}{
		{100 * time.Microsecond, .05, 10 * ms, 250 * ms},
		{100 * time.Microsecond, .2, 250 * ms, 1100 * ms},
		{25 * ms, .05, 200 * ms, 450 * ms},
		{25 * ms, .2, 600 * ms, 1700 * ms},
	} {
		var took []time.Duration
		for seed := range uint64(200) {
			t.Run(fmt.Sprint(c.latency, " ", c.loss, " ", seed), func(t *testing.T) {
				took = append(took, joinTime(t, seed, simnet.Weather{Latency: c.latency, Loss: c.loss}))
			})
		}
		if len(took) < 200 {
			continue
		}
		slices.Sort(took)
		t.Logf("%v each way, loss %v: p50 %v, p90 %v, p99 %v", c.latency, c.loss, took[100], took[180], took[198])
		if took[100] > c.p50 || took[180] > c.p90 {
			t.Errorf("p50 %v and p90 %v, want %v and %v", took[100], took[180], c.p50, c.p90)
		}
	}
}

// TestLostHandshakeMessages loses the first datagram of each step. A go-raknet server also drops datagrams that arrive
// before it has stored the connection. Over a path of any length the step is repeated after the measured round trip.
func TestLostHandshakeMessages(t *testing.T) {
	for _, delay := range []time.Duration{0, 10 * ms, 50 * ms, 100 * ms} {
		for step, toServer := range []bool{true, false, true} {
			l := newLink(t, Options{})
			l.delay = delay
			seen, lost := map[bool]int{}, false
			l.drop = func(up bool, b []byte) bool {
				var d datagram
				if d.parse(b) != nil || d.kind != dataDatagram {
					return false
				}
				seen[up]++
				if lost || up != toServer || seen[up] != 1+step/2 {
					return false
				}
				lost = true
				return true
			}
			for l.now.Sub(linkStart) < 5*time.Second &&
				(!has(l.toServer, codec.Connected) || !has(l.toClient, codec.Connected)) {
				if l.wait(ms); has(l.toServer, codec.Asked) {
					l.server.Admit(l.now, 3)
				}
			}
			clear := 7 * delay // of three and a half round trips
			if took, most := l.now.Sub(linkStart), clear+6*delay+handshakeSlack+10*ms; took > most || !lost {
				t.Errorf("%v each way, message %d lost: connected after %v, want %v at most", delay, step+1, took, most)
			}
		}
	}
}
