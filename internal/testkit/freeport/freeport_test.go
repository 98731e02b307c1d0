package freeport

import (
	"net/netip"
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
