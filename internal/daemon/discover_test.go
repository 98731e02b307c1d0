package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/setup"
	"tidegate/internal/testkit/await"
	"tidegate/proxy"
)

// bridge is a configuration with one server.
const bridge = `
[[listener]]
name = "public"
address = "127.0.0.1:0"
protocols = ["raknet"]
route = "arena"

[[route]]
name = "arena"
upstream = "arena"

[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:19132"]
`

// TestDiscoverer adds the servers of a file, and removes them when the next configuration does not name the file.
func TestDiscoverer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "servers")
	if err := os.WriteFile(file, []byte("127.0.0.1:7001\n127.0.0.1:7002 weight=3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parse := func(place string) *config.Config {
		t.Helper()
		text := strings.Replace(bridge, "servers", "discover = ["+place+"]\nservers", 1)
		c, _, err := config.Parse("t.toml", []byte(text), setup.Traits())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := parse(`"file:` + filepath.ToSlash(file) + `"`)
	server, err := proxy.Listen(setup.Settings(c, 1), proxy.Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Run(t.Context()) }()
	d := &discoverer{ctx: t.Context(), server: server, log: zerolog.Nop()}
	has := func(n int) {
		t.Helper()
		await.Nil(t, func() error {
			if got := server.Upstreams(); len(got[0].Servers) != n {
				return fmt.Errorf("%+v, want %d servers", got, n)
			}
			return nil
		})
	}
	d.follow(c)
	has(3)
	d.follow(parse(`"file:` + filepath.ToSlash(file) + `"`)) // unchanged: no new search
	has(3)
	if err := os.WriteFile(file, []byte("127.0.0.1:7001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(2)
	d.follow(parse(""))
	has(1)
}
