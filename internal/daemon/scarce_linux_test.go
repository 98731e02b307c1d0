package daemon

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"tidegate/internal/fleet"
	"tidegate/internal/setup"
	"tidegate/internal/testkit/scarce"
)

// manyParts is a configuration with every part that opens files or sockets in this process, except a fleet.
const manyParts = `
[[listener]]
name = "games"
address = "127.0.0.1:0"
protocols = ["raknet", "riptide-2.2"]
route = "games"

[[listener]]
name = "streams"
address = "127.0.0.1:0"
protocols = ["riptide-2.2"]
transport = "tcp"
route = "games"

[[listener]]
name = "joins"
address = "127.0.0.1:0"
protocols = ["nethernet"]
route = "blocks"

[[route]]
name = "games"
upstream = "games"
ordered = "fast"

[[route]]
name = "blocks"
upstream = "blocks"
mode = "relay"

[[upstream]]
name = "games"
protocol = "raknet"
servers = ["127.0.0.1:9"]
discover = ["file:servers.txt"]

[[upstream]]
name = "blocks"
protocol = "nethernet"
servers = ["127.0.0.1:19133"]

[[access]]
name = "lists"
files = ["networks.txt"]
verdict = "drop"

[bans]
file = "bans.jsonl"

[record]
last = "1m"
directory = "."

[log]
access_file = "access.log"

[admin]
listen = "unix:admin.sock"
`

// TestStartWithoutDescriptors fails each step of the service's start once.
func TestStartWithoutDescriptors(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "tidegate.toml")
	for name, text := range map[string]string{
		path: manyParts, filepath.Join(folder, "servers.txt"): "127.0.0.1:10\n",
		filepath.Join(folder, "networks.txt"): "192.0.2.0/24\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settled, _, err := setup.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := NewLogQueue(io.Discard)
	defer lines.Close(accessWait)
	scarce.Descriptors(t, func() (func(), error) {
		s := newService(Options{Path: path, Config: settled, Log: lines, Embedded: true})
		ctx, cancel := context.WithCancel(t.Context())
		end := func() {
			cancel()
			s.close()
		}
		if err := s.start(ctx, cancel); err != nil {
			end()
			return nil, err
		}
		return func() {
			cancel()
			_ = s.server.Run(ctx)
			end()
		}, nil
	})
}

// start does what run does before it serves.
func (s *service) start(ctx context.Context, drain func()) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.openFleet(fleet.Pending{}); err != nil {
		return err
	}
	return s.openAdmin(drain, &upgrader{server: s.server})
}
