package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/fleet"
	"tidegate/internal/setup"
	"tidegate/internal/testkit/await"
	"tidegate/ratelimit"
)

// TestNoFleet starts nothing without [fleet]: no goroutine, no subscription to bans.
func TestNoFleet(t *testing.T) {
	c, _, err := setup.Parse("t.toml", []byte(bridge))
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	f, stop, err := startFleet(c, nil, nil, fleet.Pending{}, nil, zerolog.Nop()) // a use of bans would panic
	if f != nil || stop != nil || err != nil {
		t.Errorf("%v, %v", f, err)
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, %d before", now, before)
	}
}

// TestFleetAndBanFile runs three nodes with embedded servers. A command bans in the file of the first node. The ban
// holds at the others, and is in their files.
func TestFleetAndBanFile(t *testing.T) {
	folder, peers := t.TempDir(), ""
	var ports [3]int
	var listeners [3]net.Listener
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
		ports[i] = l.Addr().(*net.TCPAddr).Port
		peers += fmt.Sprintf(`"127.0.0.1:%d",`, ports[i])
	}
	for _, l := range listeners { // all at once, so that the ports differ
		_ = l.Close()
	}
	var books [3]*banSync
	for i := range books {
		text := bridge + fmt.Sprintf("[bans]\nfile = \"bans%d\"\n[fleet]\nnode = \"n%d\"\n"+
			"listen = \"127.0.0.1:%d\"\npeers = [%s]\nsecret = \"0123456789abcdef\"\nstore = \"store%d\"\n",
			i, i, ports[i], peers, i)
		c, _, err := setup.Parse(filepath.Join(folder, "t.toml"), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if books[i], err = openBans(c, zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(books[i].start(t.Context()))
		f, stop, err := startFleet(c, books[i].bans, nil, fleet.Pending{}, nil, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s: %+v", f.Node, f.Status())
			}
		})
	}
	cheat := netip.MustParseAddr("192.0.2.7")
	command := ratelimit.NewBans(ratelimit.Terms{})
	command.Add(ratelimit.Ban{Prefix: netip.PrefixFrom(cheat, 32), Since: time.Now(), Author: "test"})
	if err := books[0].file.Sync(time.Now(), command); err != nil {
		t.Fatal(err)
	}
	for _, other := range books[1:] {
		await.Until(t, "in force", func() bool { return other.bans.Find(time.Now(), cheat) != nil })
		await.Nil(t, func() error {
			stored, err := other.file.Read()
			if err == nil && len(stored) != 1 {
				err = fmt.Errorf("%s has %v", other.file, stored)
			}
			return err
		})
	}
}
