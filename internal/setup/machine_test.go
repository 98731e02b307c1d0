package setup

import (
	"runtime"
	"testing"

	"tidegate/internal/config"
)

func TestCheckMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	c := config.Default()
	c.Upstreams = []config.Upstream{{Name: "near", SourcePrefix: "127.64.0.0/10"}, {Name: "far", SourcePrefix: "192.0.2.0/24"}, {}}
	err := CheckMachine(c)
	if want := "upstream far: source_prefix: 192.0.2.0/24 is not local to this machine: ip route add local 192.0.2.0/24 dev lo"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
