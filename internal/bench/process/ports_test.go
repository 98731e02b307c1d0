package process

import (
	"net/netip"
	"testing"
)

// TestFreeAddrsDiffer asks for many addresses. None comes twice, and all are below the ports that the kernel chooses.
func TestFreeAddrsDiffer(t *testing.T) {
	seen := make(map[netip.AddrPort]bool)
	for range 1000 {
		for _, free := range []func() (netip.AddrPort, error){
			func() (netip.AddrPort, error) { return FreeAddr(Loopback) }, FreeTCPAddr,
		} {
			a, err := free()
			if err != nil {
				t.Fatal(err)
			}
			if seen[a] || a.Port() < firstPort || a.Port() >= firstPort+numPorts {
				t.Fatalf("%v: came before: %v", a, seen[a])
			}
			seen[a] = true
		}
	}
}
