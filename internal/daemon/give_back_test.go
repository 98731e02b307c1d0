package daemon

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"tidegate/internal/policy"
	"tidegate/internal/stray"
	"tidegate/proxy/relay"
)

// TestTakenPort gives sessions to a node where another program has the port by which their server knows them. Without a
// hold the session would be lost there, so that node refuses it, and the players play on at their old node.
func TestTakenPort(t *testing.T) {
	for _, relays := range []bool{false, true} {
		a, nats := newArcade(t, "raknet"), natsServer(t)
		change := func(s *relay.Settings) {
			if relays {
				s.Listeners[0].Route.Mode = policy.ModeRelay
			}
		}
		one := newGate(t, "one", nats, a.protocol, a.game, 1, change)
		two := newGate(t, "two", nats, a.protocol, a.game, 1, change)
		a.join(2, one.addr)
		a.until("known", func() bool { return two.fleet.Status().Players.Known == 2 })
		a.plays(5)
		all, err := one.TakeOutPlayers(2, func(stray.Key) bool { return true }, func(stray.Key) {})
		if err != nil || len(all) != 2 {
			t.Fatalf("%d sessions taken out, %v", len(all), err)
		}
		var taken struct {
			Source netip.AddrPort `cbor:"6,keyasint"`
		}
		if err := cbor.Unmarshal(all[0].Record, &taken); err != nil {
			t.Fatal(err)
		}
		other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(taken.Source))
		if err != nil {
			t.Fatal(err)
		}
		faults := two.PutInPlayers(all[:1])(t.Context())
		_ = other.Close() // it was never used
		if !errors.Is(faults[0], relay.ErrTravel) {
			t.Errorf("relayed %v: the node takes the session: %v", relays, faults[0])
		}
		for i, err := range one.PutBackPlayers(all)(t.Context()) {
			if err != nil {
				t.Errorf("relayed %v: session %d is lost: %v", relays, i, err)
			}
		}
		a.plays(5)
		a.check()
		if n, m := one.sessions(t), two.sessions(t); n != 2 || m != 0 {
			t.Errorf("relayed %v: %d sessions, and %d at the other node", relays, n, m)
		}
	}
}
