package raknet

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestIdleConnectionLives(t *testing.T) {
	l := newConnected(t, Options{})
	before := l.carried
	l.wait(time.Minute)
	if len(l.toClient)+len(l.toServer) > 0 {
		t.Errorf("client saw %v, server %v", codectest.Kinds(l.toClient), codectest.Kinds(l.toServer))
	}
	// Each side pings every 5 s: a ping, its pong, and an acknowledgement of both.
	if got := l.carried - before; got < 24 || got > 2*12*4 {
		t.Errorf("%d datagrams in a minute of silence", got)
	}
	if l.client.sender.RTT.Smoothed == 0 || l.server.sender.RTT.Smoothed == 0 {
		t.Error("no round trip measured")
	}
}

func TestSilentPeerIsGivenUp(t *testing.T) {
	l := newConnected(t, Options{Timeout: 4 * time.Second})
	l.wait(10 * time.Second)
	heard := l.server.start.Add(l.server.keepalive.HeardAt)
	l.drop = func(toServer bool, _ []byte) bool { return toServer }
	for !has(l.toServer, codec.Disconnected) {
		l.wait(ms)
	}
	if got := l.now.Sub(heard); got < 4*time.Second || got > 4*time.Second+ms {
		t.Errorf("given up %v after it was heard, want 4 s", got)
	}
	if got := ending(t, l.toServer); got != codec.TimedOut {
		t.Errorf("ended as %v, want timed-out", got)
	}
}

// TestRoundTripIsMeasured: the server's messages reach the client 30 ms before the client sends its next data, with
// which the acknowledgements travel. The server's measurement by pings excludes that time, and so does its timeout.
func TestRoundTripIsMeasured(t *testing.T) {
	l := newConnected(t, Options{AckDelay: 100 * ms})
	l.delay = 20 * ms
	for range 300 {
		l.send(l.client, codec.Unreliable, 20, 0)
		l.wait(50 * ms)
		l.send(l.server, codec.Unreliable, 20, 0)
		l.wait(50 * ms)
	}
	if got := l.server.Stats().RTT; got < 38*ms || got > 42*ms {
		t.Errorf("round trip of %v, want nearly 40 ms", got)
	}
	if got := l.server.sender.RTT.timeout(); got < 40*ms+30*ms+timeoutSlack {
		t.Errorf("timeout of %v, want the time that acknowledgements wait in it", got)
	}
}

func TestPingFloodIsAnsweredOnce(t *testing.T) {
	l := newConnected(t, Options{})
	ping := connectedPing{time: 1}
	for n := range Seq24(100) {
		c := capsule{mode: codec.Unreliable, payload: ping.append(nil)}
		number := l.server.receiver.datagrams.next.Add(int(n & 1))
		_ = l.server.Receive(l.now, c.append(appendDataHeader(nil, number, false, false)))
	}
	for sent := 0; ; sent++ {
		if _, ok := l.server.Transmit(l.now, nil); !ok {
			if sent > 4 {
				t.Errorf("100 pings are answered by %d datagrams", sent)
			}
			return
		}
	}
}

// TestUntimedPeerIsPingedSooner: such a peer is pinged again if it does not answer, but a limited number of times.
func TestUntimedPeerIsPingedSooner(t *testing.T) {
	l := newConnected(t, Options{Timeout: time.Minute})
	l.wait(time.Second)
	k := &l.server.keepalive
	l.server.quirks.untimed, k.Untimed = true, true
	var pings []time.Duration
	count := func(d time.Duration) {
		for range d / (10 * ms) {
			before := k.PingedAt
			if l.wait(10 * ms); k.PingedAt != before {
				pings = append(pings, k.PingedAt-before)
			}
		}
	}
	for range 4 {
		l.send(l.client, codec.Unreliable, 20, 0)
		count(untimedPing)
	}
	if len(pings) < 3 || k.Unanswered > 0 {
		t.Errorf("%d pings in a second of talk, %d not answered", len(pings), k.Unanswered)
	}
	l.drop = func(toServer bool, _ []byte) bool { return toServer }
	l.send(l.server, codec.Unreliable, 20, 0)
	pings = nil
	count(20 * time.Second)
	if len(pings) != 1+mostUnanswered || k.Unanswered != mostUnanswered {
		t.Errorf("pings after %v, %d not answered, want %d more than the first", pings, k.Unanswered, mostUnanswered)
	}
}

// TestPongWaitsForTheFarPeer: the client measures the whole round trip, 20 ms to the server and 80 ms from there to the
// far peer. Neither the difference of the clocks nor the timeout of data contains the wait. Further pings do not put a
// pong off.
func TestPongWaitsForTheFarPeer(t *testing.T) {
	l := newConnected(t, Options{})
	l.delay = 10 * ms
	l.server.FarRTT(80 * ms)
	for range 200 {
		l.send(l.client, codec.Unreliable, 20, 0)
		l.wait(50 * ms)
	}
	if got := l.client.Stats().RTT; got < 98*ms || got > 104*ms {
		t.Errorf("round trip of %v, want 100 ms", got)
	}
	if got := l.client.sender.RTT.Smoothed; got > 60*ms {
		t.Errorf("round trip of data of %v, want no wait in it", got)
	}
	for _, s := range l.client.clock.samples {
		if int64(s.Ahead) < -1 || int64(s.Ahead) > 1 {
			t.Errorf("clock ahead by %d ms after a round trip of %v, want 0", int64(s.Ahead), s.RoundTrip)
		}
	}
	ping, pongs := connectedPing{time: 1}, 0
	l.drop = func(toServer bool, datagram []byte) bool {
		if !toServer && bytes.Contains(datagram, []byte{idConnectedPong, 0, 0, 0, 0, 0, 0, 0, 1}) {
			pongs++
		}
		return false
	}
	for range 100 {
		l.client.sender.enqueueControl(l.now.Sub(l.client.start), codec.Unreliable, ping.append(nil), 0)
		l.wait(10 * ms)
	}
	if pongs < 10 {
		t.Errorf("%d pongs in a second of pings each 10 ms, want some 12", pongs)
	}
}
