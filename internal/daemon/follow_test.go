package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"tidegate/codec"
	"tidegate/internal/fleet"
	"tidegate/internal/policy"
	"tidegate/internal/stray"
	"tidegate/internal/testkit/await"
	"tidegate/proxy/relay"
)

// TestPlayersAreFollowed moves the paths of players in mid-game to another node and back, twice. Only the node at which
// the datagrams arrive can reach the players, as with a floating address. The sessions stay where they are, and no
// message is lost.
func TestPlayersAreFollowed(t *testing.T) {
	for _, name := range []string{"raknet", "bedrock", "riptide-2.2", "rudp", "enet"} {
		for _, relays := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, relay %v", name, relays), func(t *testing.T) {
				a, nats := newArcade(t, name), natsServer(t)
				change := func(s *relay.Settings) {
					if relays {
						s.Listeners[0].Route.Mode = policy.ModeRelay
					}
				}
				one := newGate(t, "one", nats, a.protocol, a.game, 2, change)
				two := newGate(t, "two", nats, a.protocol, a.game, 2, change)
				const players = 8
				a.join(players, one.addr)
				a.plays(5)
				a.until("known", func() bool { return two.fleet.Status().Players.Known == players })
				for n := range 4 {
					for i, p := range a.paths {
						at := []*gate{two, one}[n%2]
						if i%2 == 0 || n > 1 {
							p.SwitchBoth(at.addr)
						}
					}
					a.plays(20)
				}
				t.Logf("longest gap %v", a.check())
				if n, m := one.sessions(t), two.sessions(t); n != players || m != 0 {
					t.Errorf("%d sessions at their node, %d at the other", n, m)
				}
				if s := two.fleet.Status().Players; s.Passed == 0 || s.Answers == 0 || s.Late+s.TooMany+s.Invalid > 0 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// TestForgedDatagramsMoveNobody sends datagrams of every kind from the players' addresses to another node. The owner
// checks them like its own, and the players play on.
func TestForgedDatagramsMoveNoPlayer(t *testing.T) {
	for _, name := range []string{"raknet", "riptide-2.2", "rudp", "enet"} {
		t.Run(name, func(t *testing.T) {
			a, nats := newArcade(t, name), natsServer(t)
			keep := func(*relay.Settings) {}
			one := newGate(t, "one", nats, a.protocol, a.game, 1, keep)
			two := newGate(t, "two", nats, a.protocol, a.game, 1, keep)
			a.join(2, one.addr)
			a.until("known", func() bool { return two.fleet.Status().Players.Known == 2 })
			for n := range 200 {
				for _, p := range a.paths {
					p.Forge(two.addr, []byte{byte(n), 0, byte(n >> 4), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, byte(n)})
				}
			}
			a.plays(30)
			a.check()
			if s := two.fleet.Status().Players; s.Passed == 0 {
				t.Errorf("no forged datagram was passed on: %+v", s)
			}
			if n, m := one.sessions(t), two.sessions(t); n != 2 || m != 0 {
				t.Errorf("%d sessions at their node, %d at the other", n, m)
			}
		})
	}
}

// TestStrangersCauseNoMessages floods a node from addresses of no player. Nothing is passed on.
func TestStrangersCauseNoMessages(t *testing.T) {
	a, nats := newArcade(t, "raknet"), natsServer(t)
	keep := func(*relay.Settings) {}
	one := newGate(t, "one", nats, a.protocol, a.game, 1, keep)
	two := newGate(t, "two", nats, a.protocol, a.game, 1, keep)
	a.join(1, one.addr)
	a.until("known", func() bool { return two.fleet.Status().Players.Known == 1 })
	const sent = 5000
	for range sent / 50 {
		conn, err := net.Dial("udp", two.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, err := conn.Write([]byte{0x84, 1, 2, 3, 4}); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.Close()
		a.plays(1)
	}
	a.until("seen", func() bool {
		f, err := two.Figures(t.Context())
		return err == nil && f.Counters.Clients.In.Messages >= sent/2
	})
	if s := two.fleet.Status().Players; s.Passed+s.TooMany+s.Late != 0 {
		t.Errorf("%+v", s)
	}
	a.check()
}

// TestHostileFleetMessages sends what no node sends, and what an unknown node sends. All is counted and has no
// effect.
func TestHostileFleetMessages(t *testing.T) {
	a, nats := newArcade(t, "raknet"), natsServer(t)
	one := newGate(t, "one", nats, a.protocol, a.game, 1, func(*relay.Settings) {})
	a.join(1, one.addr)
	c, err := client.Connect(nats)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a.until("subscribed", func() bool { return one.fleet.Status().Current }) // its subscriptions come before
	forged := stray.Datagram{Listener: 1, Client: one.addr, Bytes: []byte("x")}
	batch, _ := stray.Append(stray.Begin(nil, "unknown"), &forged, true)
	for n, m := range []struct {
		subject string
		data    []byte
	}{
		{"tidegate.test.strays.one", []byte("x")}, {"tidegate.test.strays.one", batch},
		{"tidegate.test.players.two", []byte("x")}, {"tidegate.test.players.two", make([]byte, 1<<19)},
	} {
		if err := c.Publish(m.subject, m.data); err != nil {
			t.Fatal(err)
		}
		a.until("counted", func() bool { return one.fleet.Status().Players.Invalid == uint64(n+1) })
	}
	a.plays(5)
	a.check()
	if s := one.fleet.Status().Players; s.Known+s.Nodes != 0 || s.Taken+s.Answers != 0 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkFollowed measures the round trip of a player's datagram to the game server and back, direct and by another
// node.
func BenchmarkFollowed(b *testing.B) {
	for _, far := range []bool{false, true} {
		b.Run(fmt.Sprintf("by another node %v", far), func(b *testing.B) {
			a, nats := newArcade(b, "riptide-2.2"), natsServer(b)
			keep := func(*relay.Settings) {}
			one := newGate(b, "one", nats, a.protocol, a.game, 1, keep)
			two := newGate(b, "two", nats, a.protocol, a.game, 1, keep)
			a.join(1, one.addr)
			a.until("known", func() bool { return two.fleet.Status().Players.Known == 1 })
			if far {
				a.paths[0].SwitchBoth(two.addr)
			}
			a.plays(1)
			a.check()
			a.silent, a.mode = true, codec.Unreliable
			measure(b, a)
		})
	}
}

// mostOfPlayer is the fleet's bound of a player's datagrams in a second.
const mostOfPlayer = 1000

// measure lets the first player send a number each time that the last one has come back.
func measure(b *testing.B, a *arcade) {
	all := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began, c := time.Now(), a.players[0]
		a.silent = false
		a.say(c)
		a.silent = true
		a.until("back", func() bool { return c.Value.back == uint32(len(c.Value.sent)) })
		all = append(all, time.Since(began))
		next := began.Add(2 * time.Second / mostOfPlayer)
		for time.Now().Before(next) {
			if err := a.Turn(next); err != nil {
				b.Fatal(err)
			}
		}
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs/median")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "µs/p99")
}

var crowd = flag.Int("players", 0, "players of TestDrainToFleet, except over RUDP")

// TestDrainToFleet moves all players of a node to two others in mid-game, while their paths still lead to it. Then the
// paths change. No message is lost.
func TestDrainToFleet(t *testing.T) {
	for _, test := range []struct {
		name    string
		players int
		relays  bool
	}{
		{"raknet", 200, false}, {"riptide-2.2", 50, false}, {"rudp", 20, false}, {"enet", 50, false},
		{"enet", 20, true},
	} {
		t.Run(fmt.Sprintf("%s, relay %v", test.name, test.relays), func(t *testing.T) {
			if test.name != "rudp" && *crowd > 0 { // players over RUDP send in each period
				test.players = *crowd
			}
			if testing.Short() { // the race detector multiplies the work
				test.players = min(test.players, 50)
			}
			a, nats := newArcade(t, test.name), natsServer(t)
			change := func(s *relay.Settings) {
				if test.relays {
					s.Listeners[0].Route.Mode = policy.ModeRelay
				}
			}
			var gates [3]*gate
			for i := range gates {
				gates[i] = newGate(t, fmt.Sprintf("n%d", i), nats, a.protocol, a.game, 2, change)
			}
			a.join(test.players, gates[0].addr)
			for _, p := range a.paths {
				p.SwitchBoth(gates[0].addr) // no other node reaches the players, as with a floating address
			}
			a.until("known", func() bool {
				return gates[1].fleet.Status().Players.Known == test.players && gates[0].fleet.Status().Players.Nodes == 2
			})
			const while = 2 * time.Second
			a.playFor(while)
			a.wait() // the joins are over
			a.playFor(while)
			before := a.wait()
			if err := gates[0].Ask(t.Context(), relay.Leave()); err != nil {
				t.Fatal(err)
			}
			emptied := make(chan fleet.Emptied, 1)
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			defer cancel()
			began := time.Now()
			go func() {
				done, _ := gates[0].fleet.Empty(ctx, "")
				emptied <- done
			}()
			a.until("moved", func() bool { return gates[0].fleet.Status().Players.Left == uint64(test.players) })
			took := time.Since(began)
			a.playFor(while)
			moving := a.wait()
			for i, p := range a.paths {
				p.SwitchBoth(gates[1+i%2].addr)
			}
			a.playFor(while)
			lost := uint64(0)
			for _, p := range a.paths {
				lost += p.Lost()
			}
			t.Logf("%d players moved in %v; longest round trip of a message before %v, while they moved %v, while the paths "+
				"changed %v, which lost %d answers", test.players, took.Round(time.Millisecond), before, moving, a.wait(), lost)
			var done fleet.Emptied
			a.until("quiet", func() bool {
				select {
				case done = <-emptied:
					return true
				default:
					return false
				}
			})
			a.check()
			t.Logf("longest standstill of a session %v", done.Standstill)
			one, two := gates[1].sessions(t), gates[2].sessions(t)
			if done.Moved != test.players || done.Left != 0 || one+two != test.players || gates[0].sessions(t) != 0 {
				t.Errorf("%+v; %d and %d sessions at the other nodes", done, one, two)
			}
			// A message has up to 16 sessions.
			if test.players >= 50 && (one < test.players/4 || two < test.players/4) {
				t.Errorf("%d and %d sessions: the nodes do not share them", one, two)
			}
		})
	}
}

// TestCopiesChangeNothing copies sessions, as for an offer. The players play on, another node could take the sessions,
// and the node that has them does not take them twice.
func TestCopiesChangeNothing(t *testing.T) {
	a, nats := newArcade(t, "raknet"), natsServer(t)
	one := newGate(t, "one", nats, a.protocol, a.game, 1, func(*relay.Settings) {})
	two := newGate(t, "two", nats, a.protocol, a.game, 1, func(*relay.Settings) {})
	a.join(3, one.addr)
	a.until("known", func() bool { return two.fleet.Status().Players.Known == 3 })
	a.plays(5)
	for _, most := range []int{2, 16} {
		copies, err := one.CopyPlayers(most, func(stray.Key) bool { return true })
		if err != nil || len(copies) != min(most, 3) {
			t.Fatalf("%d copies of at most %d, %v", len(copies), most, err)
		}
		var records [][]byte
		for _, c := range copies {
			records = append(records, c.Record)
		}
		for i, err := range two.CheckPlayers(t.Context(), records) {
			if err != nil {
				t.Errorf("copy %d: %v", i, err)
			}
		}
		for i, err := range one.PutInPlayers(copies)(t.Context()) {
			if !errors.Is(err, relay.ErrTravel) {
				t.Errorf("copy %d is taken in beside its session: %v", i, err)
			}
		}
	}
	a.plays(5)
	a.check()
	if n, m := one.sessions(t), two.sessions(t); n != 3 || m != 0 {
		t.Errorf("%d sessions, and %d at the other node", n, m)
	}
}

// TestNoNodeTakes drains a node whose fleet cannot take its sessions: the other node has another listener, or none at
// all. The players play on until the operator's time.
func TestNoNodeTakes(t *testing.T) {
	for name, change := range map[string]func(*relay.Settings){
		"another listener": func(s *relay.Settings) { s.Listeners[0].Name = "other" },
		"no room":          func(s *relay.Settings) { s.Limits.Sessions = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			a, nats := newArcade(t, "raknet"), natsServer(t)
			one := newGate(t, "one", nats, a.protocol, a.game, 1, func(*relay.Settings) {})
			newGate(t, "two", nats, a.protocol, a.game, 1, change)
			a.join(3, one.addr)
			a.until("known", func() bool { return one.fleet.Status().Players.Nodes == 1 })
			if err := one.Ask(t.Context(), relay.Leave()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			emptied := make(chan fleet.Emptied, 1)
			go func() {
				done, _ := one.fleet.Empty(ctx, "")
				emptied <- done
			}()
			a.plays(30)
			cancel()
			a.check()
			if done := <-emptied; done.Moved != 0 || done.Left != 3 || one.sessions(t) != 3 {
				t.Errorf("%+v, %d sessions", done, one.sessions(t))
			}
		})
	}
}

// TestTargetDies moves players to a node that takes the offers and never answers again. The sessions stay, and their
// players play on.
func TestTargetDies(t *testing.T) {
	a, nats := newArcade(t, "raknet"), natsServer(t)
	one := newGate(t, "one", nats, a.protocol, a.game, 1, func(*relay.Settings) {})
	c, err := client.Connect(nats)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a.join(3, one.addr)
	given := make(chan struct{}, 100)
	for subject, take := range map[string]client.MsgHandler{
		"moves": func(m *client.Msg) {
			var move struct{ Sessions []struct{} }
			if json.Unmarshal(m.Data, &move) != nil {
				t.Error("not JSON")
			}
			all, _ := json.Marshal(map[string][]bool{"taken": slices.Repeat([]bool{true}, len(move.Sessions))})
			_ = m.Respond(all)
		},
		"strays": func(m *client.Msg) {
			if m.Reply != "" {
				given <- struct{}{}
			}
		},
	} {
		if _, err := c.Subscribe("tidegate.test."+subject+".dead", take); err != nil {
			t.Fatal(err)
		}
	}
	alive := append([]byte{1, 3, 1, 'x'}, make([]byte, 12)...) // a whole set without players, number 1
	alive[11] = 1
	a.until("known", func() bool { // this node may not listen yet
		if err := c.Publish("tidegate.test.players.dead", alive); err != nil {
			t.Error(err)
		}
		return one.fleet.Status().Players.Nodes == 1
	})
	if err := one.Ask(t.Context(), relay.Leave()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	emptied := make(chan fleet.Emptied, 1)
	go func() {
		done, _ := one.fleet.Empty(ctx, "")
		emptied <- done
	}()
	a.until("given", func() bool { return len(given) > 0 })
	a.until("back", func() bool { return one.sessions(t) == 3 })
	a.plays(30)
	cancel()
	a.check()
	if done := <-emptied; done.Moved != 0 || done.Left != 3 {
		t.Errorf("%+v", done)
	}
}
