//go:build interop && chaos

package interop_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

// buildJumping builds the binary with a wall clock that is wrong by what a file says. The monotonic clock goes on, as
// it does when an operator or NTP sets the time.
func buildJumping(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		t.Skipf("there is no source of Go's library: %v", err)
	}
	const reads = "\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), reads) != 1 {
		t.Skip("this release of Go reads its clock in another way")
	}
	planted, err := filepath.Abs("testdata/clock/jump.go")
	if err != nil {
		t.Fatal(err)
	}
	jumps := filepath.Join(dir, "time.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(std, "time.go"): jumps, filepath.Join(std, "jump.go"): planted,
	}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	for name, text := range map[string][]byte{
		jumps: []byte(strings.Replace(string(source), reads, reads+"\tsec += jump.Load()\n", 1)), list: overlay,
	} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary = filepath.Join(dir, "tidegate")
	if out, err := exec.Command("go", "build", "-overlay", list, "-o", binary, "tidegate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// jumpingClock sets the wall clock back and ahead while players play, others join, and the binary is upgraded.
func jumpingClock(t *testing.T) string {
	const length = time.Hour // of the ban
	binary, file, bans := buildJumping(t), filepath.Join(t.TempDir(), "clock"), filepath.Join(t.TempDir(), "bans")
	p := bedrock(t, startGoServer(t))
	p.more = fmt.Sprintf("[bans]\nfile = %q", bans)
	ban := fmt.Appendf(nil, "{\"prefix\":\"127.0.0.7/32\",\"until\":%q}\n", time.Now().Add(length).Format(time.RFC3339))
	if err := os.WriteFile(bans, ban, 0o600); err != nil {
		t.Fatal(err)
	}
	g := p.openBy(t, "env", "TIDEGATE_CHAOS_CLOCK="+file, binary)
	players, others := newCrowd(t, "bedrock", udp), joins(t, g.plan.port)
	for range 20 {
		players.dial(g.plan.port)
	}
	await.Until(t, "joined", func() bool { return players.up() == 20 })
	steps := []time.Duration{-26 * time.Hour, 2 * time.Hour, 365 * 24 * time.Hour, 0}
	for i, by := range steps {
		if err := os.WriteFile(file, fmt.Appendln(nil, int64(by/time.Second)), 0o600); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the jump", func() bool {
			g.reload(t, func(*plan) {})
			return g.await(t, "configuration reloaded").Time.Sub(time.Now().Add(by)).Abs() < time.Minute
		})
		if i == 1 { // the kernel's filter of the old process may not look at its bans for a minute
			g.upgraded(t, binary)
		}
		banned := newCrowd(t, "bedrock", udp)
		banned.local, banned.names = netip.MustParseAddr("127.0.0.7"), uint64(100*(i+1))
		banned.dial(g.plan.port)
		await.Until(t, "decided", func() bool { return banned.up()+banned.gone() > 0 })
		if joined := banned.up() == 1; joined != (by > length) && by != 0 {
			t.Errorf("the clock is wrong by %v: the player whose ban is for %v joined = %v", by, length, joined)
		}
		for range 5 {
			players.say(players.reliable())
		}
		others.plays(t)
		joins(t, g.plan.port).plays(t)
		await.Until(t, "echoed", func() bool { return players.echoed() || players.gone() > 0 })
	}
	twice := players.count(func(e *end) bool {
		for _, times := range e.echoes {
			if times != 1 {
				return true
			}
		}
		return false
	})
	if left := players.gone(); left > 0 || twice > 0 {
		t.Errorf("%d of 20 players lost their session, %d got an echo twice", left, twice)
	}
	return fmt.Sprintf("%d jumps, 1 upgrade: 20 of 20 play on, %d of %d messages came back once, %d join; the ban holds "+
		"before its end and not behind it", len(steps), 20*5*len(steps), 20*5*len(steps), len(steps))
}
