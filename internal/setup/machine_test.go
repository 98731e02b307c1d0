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
		{Name: "near", Sources: []config.Source{"127.64.0.0/10"}},
		{Name: "far", Sources: []config.Source{"192.0.2.0/24"}}, {},
	}
	err := CheckMachine(c)
	want := "upstream far: sources: " +
		"192.0.2.0/24 is not local to this machine: ip route add local 192.0.2.0/24 dev lo"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestBufferShortfalls checks all sockets of a configuration against a kernel that gives at most 8 MiB.
func TestBufferShortfalls(t *testing.T) {
	c := config.Default()
	c.Upstreams = []config.Upstream{
		{Name: "own"},
		{Name: "prefix", Sources: []config.Source{"127.64.0.0/10"}},
		{Name: "shared", Sources: []config.Source{config.Shared}},
		{Name: "tcp", Sources: []config.Source{config.Shared}, Transport: config.TCP},
	}
	const remedy = "sysctl -w net.core.rmem_max=%d, or the capability CAP_NET_ADMIN"
	prefix := `upstream "prefix", by loop.receive_buffer, asks for `
	shared := `upstream "shared", by loop.receive_buffer, asks for `
	loop := "loop.receive_buffer asks for 16MiB, but the kernel gives only 8MiB: " + fmt.Sprintf(remedy, 16<<20)
	for size, want := range map[config.Size][]string{
		config.MiB: nil,
		2 * config.MiB: {
			prefix + "16MiB, but the kernel gives only 8MiB: " + fmt.Sprintf(remedy, 16<<20),
			shared + "16MiB, but the kernel gives only 8MiB: " + fmt.Sprintf(remedy, 16<<20),
		},
		16 * config.MiB: {
			loop,
			prefix + "128MiB, but the kernel gives only 8MiB: " + fmt.Sprintf(remedy, 128<<20),
			shared + "128MiB, but the kernel gives only 8MiB: " + fmt.Sprintf(remedy, 128<<20),
		},
	} {
		c.Loop.ReceiveBuffer = size
		var got []string
		for _, s := range BufferShortfalls(c, func(size int) (int, error) { return min(size, 8<<20), nil }) {
			got = append(got, s.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", size, got, want)
		}
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
