package daemon

import (
	"testing"
	"testing/synctest"

	"tidegate/internal/banfile"
	"tidegate/internal/fleet"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

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
