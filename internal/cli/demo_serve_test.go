package cli

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
)

// TestDemoServe plays with the admin server on. It moves the players off a server, kicks them, and ends the demo by
// drain: the players come back each time, and the counts have no verdict.
func TestDemoServe(t *testing.T) {
	saved := demoPorts
	t.Cleanup(func() { demoPorts = saved })
	servers := []netip.AddrPort{freeport.Loopback(t), freeport.Loopback(t)}
	demoPorts = servePorts{freeport.Loopback(t), freeport.Loopback(t), servers}
	t.Setenv(adminVariable, demoPorts.admin.String())
	t.Chdir(t.TempDir())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	var code int
	var demo sync.WaitGroup
	demo.Go(func() {
		line := []string{"tidegate", "demo", "--serve", "--clients", "2", "--delay", "1ms"}
		code = run(ctx, exampleConfig, line, &out, &errs)
	})
	players := func(server string) bool {
		status, stdout, _ := separately(t, "sessions", "list", "--server", server, "--state", "established", "--count")
		return status == 0 && strings.TrimSpace(stdout) == "2"
	}
	both := func() bool { return players("") }
	await.Until(t, "joined", both)
	first, second := demoPorts.servers[0].String(), demoPorts.servers[1].String()
	if code, _, stderr := separately(t, "upstreams", "drain", "game", first, "--move"); code != 0 {
		t.Error(stderr)
	}
	await.Until(t, "moved", func() bool { return players(second) })
	if code, _, stderr := separately(t, "sessions", "kick", "--all"); code != 0 {
		t.Error(stderr)
	}
	await.Until(t, "back", both)
	if code, _, stderr := separately(t, "upgrade"); code != 1 || !strings.Contains(stderr, "replace this process") {
		t.Errorf("upgrade: code %d, %s", code, stderr)
	}
	if code, _, stderr := separately(t, "drain", "--wait"); code != 0 {
		t.Error(stderr)
	}
	demo.Wait()
	if code != 0 || !strings.Contains(out.String(), "Join with yours: "+demoPorts.listener.String()) ||
		!strings.Contains(out.String(), "after which the client joined again") {
		t.Errorf("code %d, says:\n%s%s", code, out.String(), errs.String())
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 60+len("\n") && !strings.HasPrefix(line, "Configuration: ") {
			t.Errorf("a line has more than 60 characters: %s", line)
		}
	}
}
