package setup

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/netio"
)

// loaded returns the configuration of a file without warnings.
func loaded(t *testing.T, path string) *config.Config {
	t.Helper()
	c, warnings, err := Load(path)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return c
}

// TestServerAtOwnAddress checks that a server at one of the machine's addresses is refused if a wildcard listener
// takes its datagrams.
func TestServerAtOwnAddress(t *testing.T) {
	own, _ := netio.OwnAddresses()
	if !slices.Contains(own, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("own addresses are %v, want 127.0.0.1 among them", own)
	}
	i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() && !a.IsLoopback() })
	if i < 0 {
		t.Skip("this machine has no IPv4 address but loopback")
	}
	text := strings.Replace(string(shared(`["rtype"]`, "rtype")), "127.0.0.1:19132", own[i].String()+":7777", 1)
	path := filepath.Join(t.TempDir(), "tidegate.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load(path)
	want := fmt.Sprintf(`upstream[0].servers[0] = "%s:7777": want a game server; this address is the machine's own`,
		own[i])
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
}
