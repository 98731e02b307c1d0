package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"tidegate/internal/banfile"
	"tidegate/internal/fleet"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// TestLastChangesAfterAStandstill gives a successor joins and the last changes although the bound of the standstill is
// past and players still read their goodbyes.
func TestLastChangesAfterAStandstill(t *testing.T) {
	server, err := proxy.Listen(&relay.Settings{}, proxy.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	ours, file, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newConversation(file)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.close()
	u := &upgrader{
		server: server, bans: &banSync{file: banfile.File("bans")}, leave: func() {},
		pending: func() fleet.Pending { return fleet.Pending{} },
	}
	ours.within(-time.Second)
	told, join := make(chan struct{}), func(heir func([]byte) error) {
		if err := heir([]byte("join")); err != nil {
			t.Error(err)
		}
	}
	go func() {
		u.tellLast(&successor{conversation: ours}, join, func() { <-told })
		ours.close()
	}()
	defer close(told)
	for _, kind := range []string{wordJoin, wordFleet, wordLate} {
		m, err := theirs.receive(kind)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		m.discard()
	}
}

// TestSlowLeaveKeepsThePlayers tells a successor of the players of other nodes although its predecessor needs long to
// leave the fleet, and does not know them any more.
func TestSlowLeaveKeepsThePlayers(t *testing.T) {
	server, err := proxy.Listen(&relay.Settings{}, proxy.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		known := fleet.Pending{Players: []fleet.NodePlayers{{Node: "b"}}}
		over := make(chan struct{})
		u := &upgrader{
			server: server, bans: &banSync{file: banfile.File("bans")},
			pending: func() fleet.Pending { return known },
			leave: func() {
				known = fleet.Pending{}
				<-over
			},
		}
		u.giveFleet(nil)
		if last := u.belongings().Fleet.Players; len(last) != 1 {
			t.Errorf("the successor knows %v", last)
		}
		close(over)
	})
}
