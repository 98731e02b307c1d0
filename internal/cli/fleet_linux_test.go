package cli

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"tidegate/internal/testkit/await"
)

// spareUpstream is an upstream that no route reaches.
const spareUpstream = `
[[upstream]]
name = "spare"
protocol = "raknet"
servers = ["192.0.2.1:7777"]
`

// TestFleetUpgrade drains and bans at a node with an embedded NATS server, and upgrades it. The successor takes over
// the server's folder and port, and the drain and the ban stay. A server that no route reaches is listed, too.
func TestFleetUpgrade(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := l.Addr().String()
	_ = l.Close()
	server := gameServer(t)
	p := startProcess(t, bridgeConfig(server)+spareUpstream+fmt.Sprintf("[fleet]\nnode = \"ams1\"\n"+
		"listen = %[1]q\npeers = [%[1]q]\nstore = %[2]q\n", own, t.TempDir()))
	run := func(want string, args ...string) error {
		code, stdout, stderr := tidegate(t, append(args, "-c", p.file)...)
		if code != 0 || !strings.Contains(stdout, want) {
			return fmt.Errorf("%s: code %d, says %q %q, want %q", args, code, stdout, stderr, want)
		}
		return nil
	}
	await.Nil(t, func() error { return run("this node is ams1", "fleet", "status") })
	must(t, run("drained", "upstreams", "drain", "arena", server))
	must(t, run("", "ban", "add", "192.0.2.7", "--reason", "cheats"))
	shared := func() {
		t.Helper()
		await.Nil(t, func() error { return run("1 drained", "fleet", "status") })
		await.Nil(t, func() error { return run("0 wait", "fleet", "status") })
		await.Nil(t, func() error { return run("192.0.2.7/32  ams1", "fleet", "bans") })
		must(t, run(`"reason":"cheats"`, "fleet", "bans", "--json"))
		await.Nil(t, func() error { return run(server, "fleet", "servers") })
		await.Nil(t, func() error {
			return run(`"node":"ams1","state":"draining","sessions":0`, "fleet", "servers", "--json")
		})
		must(t, run(`"drained_by":"ams1"`, "fleet", "servers", "--json"))
		must(t, run("spare     192.0.2.1:7777", "fleet", "servers"))
		must(t, run(`"node":"ams1","state":"unrouted","sessions":0`, "fleet", "servers", "--json"))
		await.Nil(t, func() error { return run("ams1  bedrock", "fleet", "sessions") })
		must(t, run(`"protocol":"bedrock"`, "fleet", "sessions", "--json"))
		must(t, run("draining", "upstreams", "list"))
	}
	shared()
	must(t, run("upgraded from ", "upgrade"))
	successor := int(p.await(t, "handed over; this process ends")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	shared()
	must(t, run("undrained", "upstreams", "undrain", "arena", server))
	await.Nil(t, func() error { return run("0 drained", "fleet", "status") })
}

// TestFleetUpgradeWithoutNATS bans at a node without a ban file, and ends NATS. The ban stays in force after an upgrade
// that fails, and at the successor, which shares again when NATS is back. A ban and a drain that end meanwhile stay
// ended.
func TestFleetUpgradeWithoutNATS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port, store := l.Addr().(*net.TCPAddr).Port, t.TempDir()
	must(t, l.Close())
	var nats *server.Server
	halt := func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	}
	run := func() {
		t.Helper()
		nats, err = server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: store, NoSigs: true, NoLog: true,
		})
		must(t, err)
		nats.Start()
		t.Cleanup(halt)
	}
	run()
	good := bridgeConfig("127.0.0.1:1") + fmt.Sprintf("[bans]\nfile = \"\"\n[fleet]\nnode = \"ams1\"\nreplicas = 1\n"+
		"servers = [\"nats://127.0.0.1:%d\"]\n", port)
	p := startProcess(t, good)
	says := func(want string, args ...string) {
		t.Helper()
		await.Nil(t, func() error {
			if args[0] == "fleet" {
				args = []string{"fleet", args[1], "-c", p.file}
			}
			_, stdout, stderr := tidegate(t, args...)
			if !strings.Contains(stdout, want) {
				return fmt.Errorf("%s says %q %q, want %q", args, stdout, stderr, want)
			}
			return nil
		})
	}
	const current, away = "are those of the fleet", "not connected"
	says(current, "fleet", "status")
	says("192.0.2.7/32", "ban", "add", "192.0.2.7", "--admin", "unix:"+p.admin)
	says("192.0.2.8/32", "ban", "add", "192.0.2.8", "--admin", "unix:"+p.admin)
	says("drained", "upstreams", "drain", "arena", "127.0.0.1:1", "-c", p.file)
	says("0 wait", "fleet", "status")

	p.rewrite(t, strings.Replace(good, `"fast"`, `"soon"`, 1))
	must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	p.await(t, "upgrade failed; this process continues")
	says(current, "fleet", "status")
	p.rewrite(t, good)

	halt()
	says(away, "fleet", "status")
	says("192.0.2.7/32", "fleet", "bans")
	says("", "ban", "del", "192.0.2.8", "--admin", "unix:"+p.admin)
	says("undrained", "upstreams", "undrain", "arena", "127.0.0.1:1", "-c", p.file)
	says("2 wait", "fleet", "status")
	must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	successor := int(p.await(t, "handed over; this process ends")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	must(t, p.cmd.Wait())
	says("192.0.2.7/32", "fleet", "bans")
	run()
	says(current, "fleet", "status")
	says("0 wait", "fleet", "status")
	says("192.0.2.7/32", "fleet", "bans")
	says("0 drained", "fleet", "status")
	if code, stdout, _ := tidegate(t, "fleet", "bans", "-c", p.file); code != 0 || strings.Contains(stdout, "192.0.2.8") {
		t.Errorf("a removed ban is back:\n%s", stdout)
	}
}
