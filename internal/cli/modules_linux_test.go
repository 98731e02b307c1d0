package cli

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/udppath"
)

// countModule returns the counting module of internal/module.
func countModule(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("internal/module/testdata/count.wasm")
	must(t, err)
	return content
}

// withModule returns a bridge with a module, whose memory is that of the one loop.
func withModule(server, file string) string {
	return strings.Replace(bridgeConfig(server), "[[upstream]]",
		fmt.Sprintf("[[route.module]]\nfile = %q\non_failure = \"drop\"\n[[upstream]]", file), 1) + "[loop]\ncount = 1\n"
}

// counted expects the counts of the module: of the session, and of the module's own memory.
func counted(t *testing.T, conn *gork.Conn, text string, session, own uint32) {
	t.Helper()
	defer time.AfterFunc(await.Patience, func() { _ = conn.Close() }).Stop()
	if _, err := conn.Write([]byte("\xfe" + text)); err != nil {
		t.Fatal(err)
	}
	got, err := conn.ReadPacket()
	if err != nil || len(got) != 9 || binary.LittleEndian.Uint32(got[1:]) != session ||
		binary.LittleEndian.Uint32(got[5:]) != own {
		t.Fatalf("%q: the module answers %x, %v; want %d and %d", text, got, err, session, own)
	}
}

// joined joins with a client of go-raknet.
func joined(t *testing.T, addr string) *gork.Conn {
	t.Helper()
	conn, err := gork.DialTimeout(addr, await.Patience)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestModuleOverReloadAndUpgrade reloads, fails to upgrade, and upgrades, while two players talk with a module. What it
// keeps with their sessions stays. Its own memory stays until its file changes, or another process takes over.
func TestModuleOverReloadAndUpgrade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "count.wasm")
	must(t, os.WriteFile(file, countModule(t), 0o600))
	good := withModule(gameServer(t), file)
	p := startProcess(t, good)
	one, other := joined(t, p.addr), joined(t, p.addr)
	counted(t, one, "x", 1, 1)
	counted(t, one, "x", 2, 2)
	counted(t, other, "x", 1, 3)

	p.reloaded(t, strings.Replace(good, "A test", "Another", 1))
	counted(t, one, "x", 3, 4)
	must(t, os.WriteFile(file, append(countModule(t), 0, 1, 0), 0o600)) // a section without meaning
	p.reloaded(t, good)
	counted(t, one, "x", 4, 1)
	must(t, os.WriteFile(file, []byte("no module"), 0o600))
	code, _, stderr := tidegate(t, "reload", "-c", p.file)
	if code == 0 || !strings.Contains(stderr, "not a WebAssembly") {
		t.Errorf("a file without a module: code %d, says %q", code, stderr)
	}
	must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	p.await(t, "upgrade failed; this process continues")
	counted(t, other, "x", 2, 2)

	must(t, os.WriteFile(file, countModule(t), 0o600))
	pid := p.cmd.Process.Pid
	for upgrade := range uint32(2) {
		pid = p.upgraded(t, pid)
		counted(t, one, "x", 5+upgrade, 1)
		counted(t, other, "x", 3+upgrade, 2)
	}
	counted(t, one, "Lwell played", 7, 3)
	line := p.await(t, "module says")
	if line["module"] != "count" || line["route"] != "arena" || line["session"] != "1" || line["text"] != "well played" {
		t.Errorf("the log says %v", line)
	}
}

// TestModuleInFleet drains a node to another one. What the module keeps with a session is there, too, and the module's
// own memory is not.
func TestModuleInFleet(t *testing.T) {
	tables := fleetOfTwo(t, false)
	file := filepath.Join(t.TempDir(), "count.wasm")
	must(t, os.WriteFile(file, countModule(t), 0o600))
	configuration := withModule(gameServer(t), file)
	first, second := startProcess(t, configuration+tables[0]), startProcess(t, configuration+tables[1])
	path := udppath.New(t, netip.MustParseAddrPort(first.addr))
	conn := joined(t, path.Addr().String())
	counted(t, conn, "x", 1, 1)
	counted(t, conn, "x", 2, 2)
	await.Nil(t, func() error {
		known, err := second.fleetPlayers(t)
		if err == nil && known.Known != 1 {
			err = fmt.Errorf("%+v", known)
		}
		return err
	})
	code, _, stderr := tidegate(t, "drain", "--to-fleet", "--node", "node1", "--within", "30s", "-c", first.file)
	if code != 0 {
		t.Fatal(stderr)
	}
	await.Until(t, "the session is at the other node", func() bool {
		_, stdout, _ := tidegate(t, "sessions", "list", "--count", "-c", second.file)
		return stdout == "1\n"
	})
	path.SwitchBoth(netip.MustParseAddrPort(second.addr))
	counted(t, conn, "x", 3, 1)
}
