//go:build interop

package interop_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandertv/go-raknet"
)

// TestPing checks that tidegate ping finds the server and its protocol.
func TestPing(t *testing.T) {
	for _, c := range []struct {
		contender
		protocol, says string
	}{
		{pytideServers[0], "riptide-2.2", "accepts clients"},
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

// TestClientsPing checks that each library's server list shows the configured text.
func TestClientsPing(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(t *testing.T, port string) *peer
	}{
		{"go-raknet", pingByGo},
		{"jsp-raknet", script(node, "jsp_client.js", "ping")},
		{"raknet-node", script(node, "rust_client.js", "ping")},
		{"cloudburst", script(java, "Cloudburst.java", "ping")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			between := startTidegate(t, route{protocol: "bedrock", transport: udp, server: freePort(t)})
			answer := c.client(t, between.ports[udp]).await(t, "ponged").Payload
			text, err := hex.DecodeString(answer)
			if err != nil || !strings.Contains(string(text), "the arena") {
				t.Errorf("was told %q, %v", text, err)
			}
		})
	}
}

func pingByGo(t *testing.T, port string) *peer {
	t.Helper()
	text, err := raknet.Ping("127.0.0.1:" + port)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{name: "go-raknet", events: make(chan event, 1)}
	p.events <- event{Event: "ponged", Payload: hex.EncodeToString(text)}
	return p
}
