//go:build interop

package interop_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// TestPing: tidegate ping finds out who is there, and by which protocol.
func TestPing(t *testing.T) {
	for _, c := range []struct {
		contender
		protocol, says string
	}{
		{pytideServers[0], "riptide-2.2", "there, and "}, // lets players in, or takes its time to decide
		{raknetServers[0], "raknet", "go-raknet"},
		{raknetServers[1], "raknet", "MCPE;serenity;"},
		{raknetServers[2], "raknet", "MCPE;Rust Raknet Server;"},
		{raknetServers[3], "raknet", "MCPE;Cloudburst;"},
		{contender{name: "jsp-raknet", server: server(node, "jsp_server.js")}, "raknet", "MCPE;JSRakNet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := c.server(t)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			out, err := exec.CommandContext(ctx, tidegate, "ping", "--json", "127.0.0.1:"+server.port).Output()
			if err != nil {
				t.Fatal(err)
			}
			var answer struct{ Protocol, Text string }
			if err := json.Unmarshal(out, &answer); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			if answer.Protocol != c.protocol || !strings.Contains(answer.Text, c.says) {
				t.Errorf("answered %+v, want %s and %q", answer, c.protocol, c.says)
			}
		})
	}
}
