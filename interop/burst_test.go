//go:build interop

package interop_test

import (
	"encoding/hex"
	"testing"
)

// burst is the number of messages sent at once.
const burst = 10000

// TestBursts checks that many reliable ordered messages sent at once, and their echoes, arrive exactly once and in
// order.
func TestBursts(t *testing.T) {
	for _, pair := range []struct{ from, to contender }{
		{cloudburstClient, goServer},
		{goClient, cloudburstServer},
		{cloudburstClient, cloudburstServer},
	} {
		t.Run(pair.from.name+" to "+pair.to.name, func(t *testing.T) {
			client, _, server := meet(t, pair.from, pair.to)
			for i := range burst {
				client.order(t, order{Do: "send", Reliable: true, Payload: numbered(i)})
			}
			wantBurst(t, server, burst)
			wantBurst(t, client, burst)
		})
	}
}

// numbered returns a message with a number.
func numbered(i int) string { return hex.EncodeToString([]byte{packetByte, byte(i >> 8), byte(i)}) }

func wantBurst(t *testing.T, p *peer, count int) {
	t.Helper()
	for i := range count {
		if got := p.await(t, "received").Payload; got != numbered(i) {
			t.Fatalf("%s: message %d is %s, want %s", p.name, i, got, numbered(i))
		}
	}
}

// TestOvertakenMessage: Cloudburst's queue lets a whole burst overtake the first message after the queue was empty. Its
// reliable number is fixed by then. Through Tidegate nothing is lost, as without it.
func TestOvertakenMessage(t *testing.T) {
	for _, through := range []bool{false, true} {
		t.Run(map[bool]string{false: "directly", true: "through Tidegate"}[through], func(t *testing.T) {
			var client, server *peer
			if through {
				client, _, server = meet(t, cloudburstClient, cloudburstServer)
			} else {
				server = cloudburstServer.server(t)
				client = cloudburstClient.client(t, server.port)
				client.await(t, "connected")
			}
			for range 2 {
				client.order(t, order{Do: "burst", Count: overtakers})
				wantBurst(t, server, overtakers)
				wantBurst(t, client, overtakers)
			}
		})
	}
}

// overtakers is a number of messages beyond what others may have in flight.
const overtakers = 3000
