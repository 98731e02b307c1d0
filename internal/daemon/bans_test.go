package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/banfile"
	"tidegate/internal/config"
	"tidegate/internal/testkit/await"
	"tidegate/ratelimit"
)

// TestRunningProxyAndCommandsShareBans puts a command's ban into force soon, and writes a ban of the proxy into the
// file, also when the proxy ends at once.
func TestRunningProxyAndCommandsShareBans(t *testing.T) {
	c := config.Default()
	c.Bans.File = filepath.Join(t.TempDir(), "bans.jsonl")
	keeper, err := openBans(c, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	changed := keeper.bans.Subscribe()
	stop := keeper.start(t.Context())
	cheat, flooder := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.1")
	command := ratelimit.NewBans(ratelimit.Terms{})
	command.Add(ratelimit.Ban{Prefix: netip.PrefixFrom(cheat, 32), Since: time.Now(), Author: "test"})
	if err := banfile.File(c.Bans.File).Sync(time.Now(), command); err != nil {
		t.Fatal(err)
	}
	await.News(t, "in force", changed, func() bool { return keeper.bans.Find(time.Now(), cheat) != nil })
	keeper.bans.Offend(time.Now(), flooder, "flood")
	stop()
	if stored, err := banfile.File(c.Bans.File).Read(); err != nil || len(stored) != 2 {
		t.Errorf("the file has %v, %v", stored, err)
	}
	again, err := openBans(c, zerolog.Nop())
	if err != nil || again.bans.Find(time.Now(), flooder) == nil {
		t.Errorf("after a restart: %v, %+v", err, again.bans.All())
	}
}

// TestDamagedBansKeepFromRunning refuses to start with a file that cannot be read: its networks would get in.
func TestDamagedBansKeepFromRunning(t *testing.T) {
	c := config.Default()
	c.Bans.File = filepath.Join(t.TempDir(), "bans.jsonl")
	if err := os.WriteFile(c.Bans.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openBans(c, zerolog.Nop()); err == nil {
		t.Error("want an error")
	}
}

// TestUnwritableBansAreInForce starts with a file that has an expired ban and cannot be rewritten. The other bans are
// in force.
func TestUnwritableBansAreInForce(t *testing.T) {
	c := config.Default()
	folder := filepath.Join(t.TempDir(), "bans")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	c.Bans.File = filepath.Join(folder, "bans.jsonl")
	long := strings.Repeat("x", 9000)
	text := `{"prefix":"192.0.2.7/32","until":"2020-01-01T00:00:00Z"}` + "\n" + `{"prefix":"192.0.2.8/32","reason":"` +
		long + `"}` + "\n"
	if err := os.WriteFile(c.Bans.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// The lock file cannot be created either: a folder has its name, which also stops root.
	if err := os.Mkdir(c.Bans.File+".lock", 0o755); err != nil {
		t.Fatal(err)
	}
	keeper, err := openBans(c, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ban := keeper.bans.Find(time.Now(), netip.MustParseAddr("192.0.2.8"))
	if ban == nil || len(ban.Reason) != banfile.MaxText {
		t.Errorf("%+v, want the ban with a reason of %d bytes", ban, banfile.MaxText)
	}
}
