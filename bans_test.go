package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/testkit/await"
)

// TestRunningProxyAndCommandsShareBans: what a command bans is in force soon, and what the proxy bans is in the file, also
// when it ends at once.
func TestRunningProxyAndCommandsShareBans(t *testing.T) {
	c := config.Default()
	c.Bans.File = filepath.Join(t.TempDir(), "bans.jsonl")
	keeper, err := keepBans(c, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	changed := keeper.bans.Subscribe()
	stop := keeper.start(t.Context())
	cheat, flooder := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.1")
	tidegate(t, "ban", "add", "--file", c.Bans.File, "192.0.2.7")
	await.News(t, "in force", changed, func() bool { return keeper.bans.Find(time.Now(), cheat) != nil })
	keeper.bans.Offend(time.Now(), flooder, "flood")
	stop()
	if got := banned(t, c.Bans.File); len(got) != 2 {
		t.Errorf("the file has %v", got)
	}
	again, err := keepBans(c, zerolog.Nop())
	if err != nil || again.bans.Find(time.Now(), flooder) == nil {
		t.Errorf("after a restart: %v, %+v", err, again.bans.All())
	}
}

// TestDamagedBansKeepFromRunning: nobody is let in by mistake.
func TestDamagedBansKeepFromRunning(t *testing.T) {
	c := config.Default()
	c.Bans.File = write(t, "{")
	if _, err := keepBans(c, zerolog.Nop()); err == nil {
		t.Error("want an error")
	}
}

// TestCheckReadsBans: a file that would stop the proxy from starting is named before that.
func TestCheckReadsBans(t *testing.T) {
	path := write(t, bridge("127.0.0.1:1")+"[bans]\nfile = \"bans.jsonl\"\n")
	if code, _, stderr := tidegate(t, "check", "-c", path); code != 0 {
		t.Errorf("without the file: code %d, says %q", code, stderr)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "bans.jsonl"), []byte("who?\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := tidegate(t, "check", "-c", path); code != 2 || !strings.Contains(stderr, "bans.jsonl:1") {
		t.Errorf("a damaged file: code %d, says %q", code, stderr)
	}
}
