package main

import (
	"runtime"
	"strings"
	"testing"

	"tidegate/config"
)

func TestLocalSources(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	c := config.Default()
	c.Upstreams = []config.Upstream{{Name: "near", SourcePrefix: "127.64.0.0/10"}, {Name: "far", SourcePrefix: "192.0.2.0/24"}, {}}
	err := localSources(c)
	if want := "upstream far: source_prefix: 192.0.2.0/24 is not local to this machine: ip route add local 192.0.2.0/24 dev lo"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	text := strings.Replace(dialectBridge, "servers = [", "source_prefix = \"192.0.2.0/24\"\nservers = [", 1)
	code, stdout, stderr := tidegate(t, "check", "-c", write(t, text))
	if code != 0 || !strings.Contains(stderr, "warning: upstream arena: source_prefix: 192.0.2.0/24 is not local") {
		t.Errorf("check: code %d\n%s\n%s", code, stdout, stderr)
	}
	if code, _, stderr := tidegate(t, "run", "-c", write(t, text)); code != 1 || !strings.Contains(stderr, "is not local") {
		t.Errorf("run: code %d\n%s", code, stderr)
	}
}
