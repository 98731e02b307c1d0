package setup

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/config"
)

func TestCheckMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	c := config.Default()
	c.Upstreams = []config.Upstream{
		{Name: "near", SourcePrefix: "127.64.0.0/10"},
		{Name: "far", SourcePrefix: "192.0.2.0/24"}, {},
	}
	err := CheckMachine(c)
	want := "upstream far: source_prefix: " +
		"192.0.2.0/24 is not local to this machine: ip route add local 192.0.2.0/24 dev lo"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestBufferShortfalls checks all sockets of a configuration against a kernel that gives at most 8 MiB.
func TestBufferShortfalls(t *testing.T) {
	c := config.Default()
	c.Upstreams = []config.Upstream{
		{Name: "own", ReceiveBuffer: config.MiB},
		{Name: "large", ReceiveBuffer: 9 * config.MiB},
		{Name: "prefix", ReceiveBuffer: config.MiB, SourcePrefix: "127.64.0.0/10"},
		{Name: "shared", ReceiveBuffer: 512 * config.KiB, ShareSockets: true},
		{Name: "tcp", ReceiveBuffer: config.GiB, Transport: config.TCP},
	}
	c.Loop.ReceiveBuffer = 16 * config.MiB
	var got []string
	for _, s := range BufferShortfalls(c, func(size int) (int, error) { return min(size, 8<<20), nil }) {
		got = append(got, s.String())
	}
	const remedy = "sysctl -w net.core.rmem_max=%d, or the capability CAP_NET_ADMIN"
	want := []string{
		"loop.receive_buffer asks for 16MiB, but the kernel gives only 8MiB: " + fmt.Sprintf(remedy, 16<<20),
		`upstream "large": receive_buffer asks for 9MiB, but the kernel gives only 8MiB: ` + fmt.Sprintf(remedy, 9<<20),
		`upstream "prefix": receive_buffer asks for 16MiB, but the kernel gives only 8MiB: ` + fmt.Sprintf(remedy, 16<<20),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDescriptorsForSessions compares limits.sessions with the descriptors of the process.
func TestDescriptorsForSessions(t *testing.T) {
	c := config.Default()
	c.Limits.Sessions = 1000
	for limit, want := range map[uint64]string{0: "", 1064: "", 1063: "limits.sessions = 1000 needs 1064 descriptors"} {
		err := filesFor(c, limit)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d descriptors: %v, want %q", limit, err, want)
		}
	}
}
