package cli

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/udppath"
)

// TestDrainToFleet drains a process while its player talks. The player plays on at the other process, and the drained
// one ends when the player's path has changed.
func TestDrainToFleet(t *testing.T) {
	nats, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	must(t, err)
	nats.Start()
	t.Cleanup(nats.Shutdown)
	if !nats.ReadyForConnections(await.Patience) {
		t.Fatal("NATS does not start")
	}
	configuration := bridgeConfig(echoServer(t))
	node := func(name string) *process {
		return startProcess(t, configuration+fmt.Sprintf("[fleet]\nservers = [%q]\nreplicas = 1\nfollow = true\nnode = %q\n",
			nats.ClientURL(), name))
	}
	one, other := node("one"), node("other")
	path := udppath.New(t, netip.MustParseAddrPort(one.addr))
	talk := (&process{addr: path.Addr().String()}).talking(t, 1)
	says := func(want string, args ...string) {
		t.Helper()
		await.Nil(t, func() error {
			if _, stdout, stderr := tidegate(t, args...); !strings.Contains(stdout, want) {
				return fmt.Errorf("%s says %q %q, want %q", args, stdout, stderr, want)
			}
			return nil
		})
	}
	says("1 known at 1 other nodes", "fleet", "status", "-c", other.file)
	says("0 known at 1 other nodes", "fleet", "status", "-c", one.file)
	says("the proxy admits no new sessions", "drain", "--to-fleet", "--node", "other", "--within", "30s", "-c", one.file)
	says("0 sessions to other nodes, 1 from other nodes", "fleet", "status", "-c", other.file)
	talk.goesOn(t)
	path.SwitchBoth(netip.MustParseAddrPort(other.addr))
	talk.goesOn(t)
	if line := one.await(t, "drained to the fleet"); line["moved"] != 1.0 || line["left"] != 0.0 {
		t.Errorf("the log says %v", line)
	}
	must(t, one.cmd.Wait())
	talk.goesOn(t)
	says("1\n", "sessions", "list", "--count", "-c", other.file)
	if code, _, stderr := tidegate(t, "drain", "--node", "x", "-c", other.file); code != 2 {
		t.Errorf("--node without --to-fleet: code %d, says %q", code, stderr)
	}
	talk.end(t)
}

// TestDrainWithoutFleet refuses a drain to a fleet, and the proxy goes on.
func TestDrainWithoutFleet(t *testing.T) {
	p := startProcess(t, bridgeConfig(gameServer(t)))
	code, _, stderr := tidegate(t, "drain", "--to-fleet", "-c", p.file)
	if code != 1 || !strings.Contains(stderr, "fleet.follow = true") {
		t.Errorf("code %d, says %q", code, stderr)
	}
	if code, _, stderr = tidegate(t, "drain", "--to-fleet", "--within", "48h", "-c", p.file); code == 0 {
		t.Errorf("48 hours: code %d, says %q", code, stderr)
	}
}
