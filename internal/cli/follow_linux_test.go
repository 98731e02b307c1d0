package cli

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"tidegate/internal/demo"
	"tidegate/internal/fleet/view"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/udppath"
)

// newFollowedGames chooses the addresses of games whose only players have paths of their own: one terminated and one
// relayed player of each protocol over UDP.
func newFollowedGames(t *testing.T) (g *games, paths []*udppath.Path) {
	t.Helper()
	g = &games{players: 1}
	for _, name := range demo.Protocols() {
		pair, err := demo.NewPair(name, name)
		must(t, err)
		if pair.OverTCP() {
			continue
		}
		for _, isRelayed := range []bool{false, true} {
			at := ownPorts(2)
			path := udppath.New(t, at[0])
			g.kinds = append(g.kinds, gameKind{pair, at[0], at[1], path.Addr(), isRelayed})
			paths = append(paths, path)
		}
	}
	return g, paths
}

// fleetOfTwo returns the tables of two nodes that follow players, by the servers of this process or embedded ones.
func fleetOfTwo(t *testing.T, embedded bool) (tables [2]string) {
	t.Helper()
	if !embedded {
		nats, err := server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		})
		must(t, err)
		nats.Start()
		t.Cleanup(nats.Shutdown)
		if !nats.ReadyForConnections(await.Patience) {
			t.Fatal("NATS does not start")
		}
		for i := range tables {
			tables[i] = fmt.Sprintf("[fleet]\nfollow = true\nnode = \"node%d\"\nreplicas = 1\nservers = [%q]\n", i,
				nats.ClientURL())
		}
		return tables
	}
	at := ownPorts(2)
	for i := range tables {
		tables[i] = fmt.Sprintf("[fleet]\nfollow = true\nnode = \"node%d\"\nlisten = %q\n"+
			"peers = [%q, %q]\nsecret = \"0123456789abcdef0123456789abcdef\"\nstore = %q\n", i, at[i], at[0], at[1], t.TempDir())
	}
	return tables
}

// fleetPlayers returns what a node knows of the players of its fleet.
func (p *process) fleetPlayers(t *testing.T) (view.Players, error) {
	t.Helper()
	_, stdout, stderr := separately(t, "fleet", "status", "--json", "-c", p.file)
	var f view.Fleet
	if err := json.Unmarshal([]byte(stdout), &f); err != nil {
		return f.Players, fmt.Errorf("%w: %s", err, stderr) // no admin server answers for a moment
	}
	return f.Players, nil
}

// TestUpgradeOfFollowedPlayers leads the paths of players of all protocols to another node, upgrades the node with
// their sessions, and then the node where their datagrams arrive. Only that node's answers reach them. All sessions go
// on, no reliable message is lost or comes twice, and no player gets a second session.
func TestUpgradeOfFollowedPlayers(t *testing.T) {
	for name, embedded := range map[string]bool{"NATS": false, "embedded": true} {
		t.Run(name, func(t *testing.T) {
			g, paths := newFollowedGames(t)
			tables := fleetOfTwo(t, embedded)
			one := g.kinds[0].listener.Addr()
			configuration := bridgeConfig("127.0.0.1:1") + g.configuration() + manyFromOneAddress
			owner := startProcess(t, configuration+tables[0])
			as4 := one.As4()
			as4[1] |= 0x80 // ownPorts has it clear
			other := netip.AddrFrom4(as4)
			for _, k := range g.kinds { // the game servers stay where they are
				at := netip.AddrPortFrom(other, k.listener.Port())
				configuration = strings.Replace(configuration, k.listener.String(), at.String(), 1)
			}
			edge := startProcess(t, configuration+tables[1])
			lead := func(to netip.Addr) {
				for i, k := range g.kinds {
					paths[i].SwitchBoth(netip.AddrPortFrom(to, k.listener.Port()))
				}
			}
			g.begin(t, owner)
			t.Cleanup(func() {
				if t.Failed() {
					for _, p := range []*process{owner, edge} {
						_, stdout, stderr := separately(t, "fleet", "status", "--json", "-c", p.file)
						t.Log(stdout, stderr)
					}
					edge.tellLog(t)
				}
			})
			passes := func() { // the edge knows all players, and passes their datagrams on
				t.Helper()
				await.Nil(t, func() error {
					s, err := edge.fleetPlayers(t)
					if err == nil && s.Known != len(g.kinds) {
						_, stdout, _ := separately(t, "sessions", "list", "--count", "-c", owner.file)
						err = fmt.Errorf("the edge knows %d players, want %d; the owner has %s", s.Known, len(g.kinds), stdout)
					}
					return err
				})
				g.goOn(t, owner)
				if _, stdout, _ := separately(t, "sessions", "list", "--count", "-c", edge.file); stdout != "0\n" {
					t.Errorf("the edge has %s sessions of its own, want 0", strings.TrimSpace(stdout))
				}
			}
			passes()
			lead(other)
			passes()
			owner.upgraded(t, owner.cmd.Process.Pid)
			passes()
			edge.upgraded(t, edge.cmd.Process.Pid)
			passes()
			if s, err := edge.fleetPlayers(t); err != nil || s.Passed == 0 || s.Answers == 0 {
				t.Errorf("the edge's successor passes nothing on: %+v, %v", s, err)
			}
			for _, p := range []*process{owner, edge} { // each successor knows the other node at once
				if s, err := p.fleetPlayers(t); err != nil || s.Invalid > 0 {
					t.Errorf("a successor has refused messages of the other node: %+v, %v", s, err)
				}
			}
			lead(one)
			g.goOn(t, owner)
			g.end(t)
		})
	}
}
