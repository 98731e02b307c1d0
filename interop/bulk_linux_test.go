//go:build interop && soak

package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/tunpath"
)

// TestBulkPeers shows how long 600 messages of 14 kB take over QUIC, and over TCP with two congestion controls, on a
// path with a round trip of 50 ms (docs/benchmarks/bulk.md). Each transfer must arrive. That takes seven minutes.
func TestBulkPeers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for network namespaces")
	}
	peer := filepath.Join(t.TempDir(), "bulk")
	if err := command(filepath.Join("peers", "bulk"), "go", "build", "-o", peer, "."); err != nil {
		t.Fatal(err)
	}
	path := tunpath.New(t, 1)
	for _, loss := range []float64{0.01, 0.05, 0.10} {
		for _, control := range []string{"", "bbr", "cubic"} {
			path.SetWeather(tunpath.Weather{Delay: 25 * time.Millisecond, Loss: loss})
			took, err := transferBulk(t, path, peer, control)
			if err != nil {
				t.Errorf("loss %.0f %%, congestion control %q: %v", 100*loss, control, err)
			}
			t.Logf("loss %.0f %%, congestion control %q: %v", 100*loss, control, took)
		}
	}
}

// transferBulk makes one transfer over QUIC, or over TCP with a congestion control.
func transferBulk(t *testing.T, path *tunpath.Path, peer, control string) (took time.Duration, err error) {
	const messages, size = "600", "14000"
	address := tunpath.FarAddr + ":" + freePort(t)
	run := func(enter []string, args ...string) *exec.Cmd {
		line := append(append(enter, peer), args...)
		c := exec.Command(line[0], line[1:]...)
		c.Env = append(os.Environ(), "BULK_TCP="+control)
		return c
	}
	server := run(path.Far.Enter(), "server", address, messages, size, "0")
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { _, _ = server.Process.Kill(), server.Wait() }()
	var out []byte
	await.Until(t, "a transfer", func() bool { // the server may not listen yet
		client := run(path.Near.Enter(), "client", address, messages, size)
		client.Stdin = bytes.NewReader([]byte("\n"))
		out, err = client.Output()
		return err == nil
	})
	answers := json.NewDecoder(bytes.NewReader(out))
	var joined string
	if err := answers.Decode(&joined); err != nil {
		return 0, fmt.Errorf("join: %w", err)
	}
	err = answers.Decode(&took)
	return took, err
}
