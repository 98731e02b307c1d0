package daemon

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
		c, _, err := config.Parse(filepath.Join(filepath.Dir(file), "t.toml"), []byte(text), setup.Traits())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := parse(`"file:servers"`) // beside the configuration
	server, err := proxy.Listen(setup.Settings(c, 1, setup.NewSecrets()), proxy.Options{Log: zerolog.Nop()})
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
	d.follow(parse(`"file:servers"`)) // unchanged: no new search
	has(3)
	if err := os.WriteFile(file, []byte("127.0.0.1:7001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(2)
	d.follow(parse(""))
	has(1)
}

// TestDiscovererSkipsItself finds addresses that cannot be game servers: a listener of this proxy, to which its own
// datagrams would return forever, and a group. It uses the rest of the list.
func TestDiscovererSkipsItself(t *testing.T) {
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	itself := free.LocalAddr().String()
	_ = free.Close()
	dir := t.TempDir()
	list := itself + "\n224.0.0.1:7001\n127.0.0.1:7001\n"
	if err := os.WriteFile(filepath.Join(dir, "servers"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(bridge, "servers", "discover = [\"file:servers\"]\nservers", 1)
	text = strings.Replace(text, "127.0.0.1:0", itself, 1)
	c, _, err := config.Parse(filepath.Join(dir, "t.toml"), []byte(text), setup.Traits())
	if err != nil {
		t.Fatal(err)
	}
	server, err := proxy.Listen(setup.Settings(c, 1, setup.NewSecrets()), proxy.Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Run(t.Context()) }()
	var log bytes.Buffer
	var mu sync.Mutex
	d := &discoverer{ctx: t.Context(), server: server, log: zerolog.New(&guarded{&mu, &log})}
	d.follow(c)
	await.Until(t, "discovered", func() bool { return len(server.Upstreams()[0].Servers) > 1 })
	if got := server.Upstreams()[0].Servers; len(got) != 2 || got[1].Addr.String() != "127.0.0.1:7001" {
		t.Errorf("servers %+v, want the listed one and 127.0.0.1:7001", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if said := log.String(); !strings.Contains(said, itself) || !strings.Contains(said, "224.0.0.1:7001") {
		t.Errorf("the log has no skipped address: %s", said)
	}
}

// guarded is a writer with a lock, which a test can take to read.
type guarded struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (g *guarded) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.to.Write(b)
}
