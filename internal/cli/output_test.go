package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestOutputThatFails: what could not be printed is an error, once, and of every command.
func TestOutputThatFails(t *testing.T) {
	for _, args := range [][]string{
		{"version"}, {"check", "-c", "config.example.toml"}, {"demo", "--list"}, {"demo", "--show-config"}, {"--help"},
		{"decode", handshake}, {"demo", "--for", "1s", "--clients", "1"},
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), exampleConfig, append([]string{"tidegate"}, args...), fullDisk{}, &stderr)
		if code != 1 || strings.Count(stderr.String(), "no space left") != 1 {
			t.Errorf("%v: code %d, says %q; want 1 and the reason, once", args, code, stderr.String())
		}
	}
}
