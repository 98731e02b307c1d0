package freeport

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAddrsDiffer asks for many addresses. None comes twice, and all are below the ports that the kernel chooses.
func TestAddrsDiffer(t *testing.T) {
	seen := make(map[netip.AddrPort]bool)
	for range 1000 {
		a := Loopback(t)
		if seen[a] || a.Port() < firstPort || a.Port() >= firstPort+numPorts {
			t.Fatalf("%v: came before: %v", a, seen[a])
		}
		seen[a] = true
	}
}

// TestProcessesShareNoBlock: processes with other directories for temporary files get ports of other blocks.
func TestProcessesShareNoBlock(t *testing.T) {
	const tells = "FREEPORT_TEST_TELLS"
	if os.Getenv(tells) != "" {
		fmt.Println("port", Loopback(t).Port())
		return
	}
	mine := make(map[int]bool)
	for range 15 {
		Loopback(t)
		mine[ports.block] = true
		ports.used = blockPorts // so the next comes from another block
	}
	for range 8 {
		other := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$") // #nosec G204 G702 -- this test
		other.Env = append(os.Environ(), tells+"=1", "TMPDIR="+t.TempDir())
		out, err := other.Output()
		var port int
		_, said, _ := strings.Cut(string(out), "port ")
		if _, scan := fmt.Sscan(said, &port); err != nil || scan != nil {
			t.Fatalf("%s: %v, %v", out, err, scan)
		}
		if mine[(port-firstPort)/blockPorts] {
			t.Errorf("port %d is in a block of this process", port)
		}
	}
}
