//go:build interop

package interop_test

import (
	"net"
	"slices"
	"testing"
)

// TestForgedConnectsJoinNoGame: no real server lets a player join whose address is forged, though it is asked to accept
// one before the player has answered, and no other player hears of it. A hasty server must not be asked so early.
func TestForgedConnectsJoinNoGame(t *testing.T) {
	t.Parallel() // each pair waits 5 s for the forged sessions to end
	servers := slices.Concat(pytideServers, raknetServers, []contender{libenetContender})
	everyPair(t, pytideClients[:1], servers, func(t *testing.T, from, to contender) {
		by := route{}
		if to.hasty {
			by.admit = "proof_first"
		}
		witness, between, server := meetBy(t, from, to, by)
		const forgers = 2 // the log leaves further ones out
		for range forgers {
			forger, err := net.Dial("udp", net.JoinHostPort("127.0.0.1", between.ports[udp]))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = forger.Close() })
			if _, err := forger.Write([]byte{0x02}); err != nil {
				t.Fatal(err)
			}
		}
		for range forgers {
			if e := between.await(t, "session ended"); e.By != "client" || e.Reason != "timed-out" {
				t.Errorf("a forged session ended for %s by %s, want timed-out by client", e.Reason, e.By)
			}
		}
		late := from.client(t, between.ports[from.transport])
		id := late.awaitWithin(t, "connected", 3*patience).Client
		server.await(t, "joined")
		late.order(t, order{Do: "send", ID: 0x1234, Reliable: true, Payload: "c0ffee"})
		server.await(t, "received") // by now it has told of all that joined
		told := []*peer{server}
		if to.protocol == "riptide-2.2" {
			if e := witness.await(t, "joined"); e.Client != id {
				t.Errorf("the player was told that client %d has joined, want only %d", e.Client, id)
			}
			told = append(told, witness)
		}
		for _, p := range told {
			for _, e := range p.passed {
				if e.Event == "left" || e.Event == "joined" {
					t.Errorf("%s was told that client %d has %s", p.name, e.Client, e.Event)
				}
			}
		}
	})
}
