package raknet

import (
	"testing"
	"time"

	"tidegate/codec"
)

// TestAcknowledgementsWait gives each step's datagrams to a receiver at once, and checks when an ACK is due.
func TestAcknowledgementsWait(t *testing.T) {
	const last, more = false, true
	for _, test := range []struct {
		what      string
		datagrams []bool // whether their sender has more waiting
		want      time.Duration
	}{
		{"one datagram", []bool{last}, 25 * ms},
		{"several", []bool{last, last, last}, 25 * ms},
		{"one of a sender that is held back", []bool{more}, streamAckDelay},
		{"one that was held back", []bool{more, more, last}, 25 * ms},
		{"so many that the sender's window may be used up", make([]bool, acksAtOnce), 0},
		{"more than those", make([]bool, acksAtOnce+1), 0},
	} {
		r := receiver{receiving: new(receiving), ackDelay: 25 * ms}
		for n, continuous := range test.datagrams {
			r.acknowledge(time.Second, &datagram{number: Seq24(n), more: continuous})
		}
		if r.acksDue(time.Second+test.want-1, false) || !r.acksDue(time.Second+test.want, false) {
			t.Errorf("%s: due after %v, want %v", test.what, r.AcksAt-time.Second, test.want)
		}
	}
}

// TestAcknowledgementsGoWithData sends a message each way every few milliseconds, for a second.
func TestAcknowledgementsGoWithData(t *testing.T) {
	for _, test := range []struct {
		what  string
		every time.Duration
		most  int // ACKs per second
	}{
		{"a game of 30 ticks a second", 33 * ms, 31},
		{"one of a thousand", ms, 41},
	} {
		l := newConnected(t, Options{})
		acks, alone, data := 0, 0, false
		l.drop = func(toServer bool, b []byte) bool {
			isAck := b[0]&bitACK != 0
			switch {
			case toServer:
			case isAck && !data:
				alone++
				fallthrough
			case isAck:
				acks++
			}
			data = !toServer && !isAck
			return false
		}
		for range int(time.Second / test.every) {
			l.send(l.client, codec.Reliable, 20, 0)
			l.send(l.server, codec.Reliable, 20, 0)
			l.wait(test.every)
		}
		if acks > test.most || acks < test.most/2 || alone > 1 {
			t.Errorf("%s: %d ACKs from the server, %d of them by themselves; want at most %d and 1",
				test.what, acks, alone, test.most)
		}
	}
}
