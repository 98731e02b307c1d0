package cli

import (
	"strings"
	"testing"
)

// placed is a configuration of a listener by TCP, and of one with many ports.
const placed = `
[[listener]]
name = "stream"
address = "127.0.0.1:7701"
transport = "tcp"
protocols = ["riptide-2.2"]
route = "stream"
[[listener]]
name = "many"
address = "127.0.0.1:7000-7004"
protocols = ["any"]
route = "many"
[[route]]
name = "stream"
upstream = "stream"
[[route]]
name = "many"
upstream = "many"
mode = "relay"
[[upstream]]
name = "stream"
protocol = "riptide-2.2"
servers = ["127.0.0.1:7801"]
[[upstream]]
name = "many"
protocol = "any"
servers = ["127.0.0.2:8000-8004"]
`

// TestCheckNamesPlaces: each listener once, with its transport and all its ports.
func TestCheckNamesPlaces(t *testing.T) {
	code, stdout, stderr := tidegate(t, "check", "-c", write(t, placed))
	for _, want := range []string{
		"stream (tcp 127.0.0.1:7701) riptide-2.2 -> stream (riptide-2.2)\n", "many (127.0.0.1:7000-7004) any -> many (any)\n",
	} {
		if code != 0 || strings.Count(stdout, want) != 1 {
			t.Errorf("code %d, want %q once in\n%s%s", code, want, stdout, stderr)
		}
	}
}
