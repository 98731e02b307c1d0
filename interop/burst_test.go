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
			wantBurst(t, server)
			wantBurst(t, client)
		})
	}
}

// numbered returns a message with a number.
func numbered(i int) string { return hex.EncodeToString([]byte{packetByte, byte(i >> 8), byte(i)}) }

func wantBurst(t *testing.T, p *peer) {
	t.Helper()
	for i := range burst {
		if got := p.await(t, "received").Payload; got != numbered(i) {
			t.Fatalf("%s: message %d is %s, want %s", p.name, i, got, numbered(i))
		}
	}
}
