package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestServerAtOwnAddress: a wildcard listener and a server at one of the machine's addresses go in circles.
func TestServerAtOwnAddress(t *testing.T) {
	own := ownAddresses()
	if !slices.Contains(own, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("own addresses are %v, want 127.0.0.1 among them", own)
	}
	i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() && !a.IsLoopback() })
	if i < 0 {
		t.Skip("this machine has no IPv4 address but loopback")
	}
	path := write(t, strings.Replace(string(shared(`["rtype"]`, "rtype", "")), "127.0.0.1:19132", own[i].String()+":7777", 1))
	code, _, stderr := tidegate(t, "check", "-c", path)
	want := fmt.Sprintf(`upstream[0].servers[0] = "%s:7777": want a game server; this address is the machine's own`, own[i])
	if code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("code %d, says %q; want 2 and %q", code, stderr, want)
	}
}
