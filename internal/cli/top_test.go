package cli

import (
	"encoding/json"
	"strings"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/admin"
	"tidegate/internal/testkit/await"
	"tidegate/internal/top"
)

// TestTop prints lines for people and objects for programs, of a proxy with one player.
func TestTop(t *testing.T) {
	p := startProcess(t, bridgeConfig(echoServer(t)))
	conn, err := gork.DialTimeout(p.addr, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p.await(t, "session established")
	code, stdout, stderr := tidegate(t, "top", "-c", p.file, "--json", "--count", "2")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var s admin.Live
	if code != 0 || len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &s) != nil {
		t.Fatalf("code %d, says\n%s%s", code, stdout, stderr)
	}
	if s.Sessions != 1 || len(s.Servers) != 1 || s.Servers[0].Upstream != "arena" || s.Over < 0.5 {
		t.Errorf("sample %+v", s)
	}
	code, stdout, _ = tidegate(t, "top", "-c", p.file, "--count", "1")
	if code != 0 || !strings.HasPrefix(stdout, top.Heading) || strings.Count(stdout, "\n") != 3 {
		t.Errorf("code %d, says\n%s", code, stdout)
	}
	if code, _, stderr = tidegate(t, "top", "-c", p.file, "--count", "0"); code != 2 {
		t.Errorf("--count 0: code %d, says %s", code, stderr)
	}
}
