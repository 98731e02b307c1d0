package enet

import (
	"testing"
	"time"

	"tidegate/codec/codectest"
)

// control gives the server commands of the client in one datagram with a time. Their numbers begin with seq.
func control(now time.Time, conns [2]*Conn, clock, seq uint16, kinds ...kind) error {
	client := conns[1]
	b, place := client.appendHeader(nil, &header{peer: client.peer, session: client.sessionOut, timed: true, time: clock})
	for i, k := range kinds {
		b = appendCommand(b, k, flagAck, controlChannel, seq+uint16(i))
		b = append(b, make([]byte, bodyLen[k])...)
	}
	err := conns[0].Receive(now, client.seal(b, place, false))
	codectest.Drain(conns[0])
	return err
}

// TestPeerClock has the clock of a client's machine set, or run slow. All its pings are acknowledged. Settings and a
// goodbye count from the second datagram on.
func TestPeerClock(t *testing.T) {
	for _, o := range []Options{{}, {Checksums: ChecksumsOn}} {
		for _, test := range []struct {
			step  time.Duration // after 5 s
			slows time.Duration // for each second
		}{{step: -20 * time.Second}, {step: 10 * time.Second}, {step: 30 * time.Second}, {slows: 5 * time.Millisecond}} {
			now, conns := joinedBy(t, o)
			server, first := conns[0], conns[1].clock(now)
			clock, seq := first, server.peerControl
			for at := time.Duration(0); at < 30*time.Minute; at += 500 * time.Millisecond {
				now = now.Add(500 * time.Millisecond)
				theirs := at - at/time.Second*test.slows
				if at >= 5*time.Second {
					theirs += test.step
				}
				clock = first + uint16(theirs.Milliseconds())
				seq++
				if err := control(now, conns, clock, seq, kindPing); err != nil || server.acks.len() != 1 {
					t.Fatalf("%+v: after %v a ping is not acknowledged: %v", test, at, err)
				}
				server.acks = acks{}
			}
			clock += 20_000 // set once more
			for range 2 {
				now, clock, seq = now.Add(100*time.Millisecond), clock+100, seq+1
				_ = control(now, conns, clock, seq, kindThrottle)
			}
			if server.throttle.terms == defaultThrottle {
				t.Errorf("%+v: a setting does not count", test)
			}
			clock += 20_000
			for range 2 {
				now, clock = now.Add(100*time.Millisecond), clock+100
				_ = control(now, conns, clock, seq+1, kindDisconnect)
			}
			if server.state == connected && server.farewell.heard.IsZero() {
				t.Errorf("%+v: the goodbye does not count", test)
			}
		}
	}
}

// TestForgedTimes gives a session settings of a forger who knows all but the peer's clock. None counts, neither two in
// one datagram, nor two between which the peer is heard, nor two that disagree.
func TestForgedTimes(t *testing.T) {
	now, conns := joined(t)
	server, seq := conns[0], conns[0].peerControl
	for _, off := range []uint16{20_000, 20_000, 30_000, 40_000} {
		now = now.Add(time.Second)
		if err := control(now, conns, conns[1].clock(now), seq+1, kindPing); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
		_ = control(now, conns, conns[1].clock(now)+off, seq+2, kindPing, kindThrottle)
		_ = control(now.Add(time.Second), conns, conns[1].clock(now)+off+5000, seq+3, kindThrottle)
		_ = control(now.Add(time.Second), conns, conns[1].clock(now)+off+5000, seq+3, kindDisconnect)
		seq++
	}
	if server.throttle.terms != defaultThrottle || !server.farewell.heard.IsZero() || server.state != connected {
		t.Errorf("a forger has changed the session: %+v, state %d", server.throttle.terms, server.state)
	}
}
