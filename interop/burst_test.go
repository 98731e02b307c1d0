//go:build interop

package interop_test

import (
	"encoding/hex"
	"testing"
)

// burst is how many messages are sent at once.
const burst = 10000

// TestBursts: many reliable ordered messages at once arrive exactly once and in order, and so do their echoes.
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

// numbered is a message that says which it is.
func numbered(i int) string { return hex.EncodeToString([]byte{packetByte, byte(i >> 8), byte(i)}) }

func wantBurst(t *testing.T, p *peer) {
	t.Helper()
	for i := range burst {
		if got := p.await(t, "received").Payload; got != numbered(i) {
			t.Fatalf("%s: message %d is %s, want %s", p.name, i, got, numbered(i))
		}
	}
}
