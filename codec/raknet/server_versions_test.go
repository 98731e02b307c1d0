package raknet

import (
	"net/netip"
	"testing"

	"tidegate/codec"
)

// TestDialRemembersVersion asks a server for the second time with the version that it named the first time, from whichever
// loop, and another server with ours.
func TestDialRemembersVersion(t *testing.T) {
	p := New(Options{DialVersion: 6})
	first := newLinkOf(t, p)
	_ = first.client.Receive(first.now, (&incompatible{version: 11, guid: 1}).append(nil))
	other := netip.AddrPortFrom(first.client.peer.Addr(), first.client.peer.Port()+1)
	for server, want := range map[netip.AddrPort]uint8{first.client.peer: 11, other: 6} {
		c := p.ForLoop().(*Protocol).Dial(first.now, server, codec.Hello{Identity: 78})
		var request openConnectionRequest1
		wire, _ := c.Transmit(first.now, nil)
		if err := request.parse(wire); err != nil {
			t.Fatal(err)
		}
		if request.version != want {
			t.Errorf("%s: asked with version %d, want %d", server, request.version, want)
		}
	}
}

// TestServerVersionsAreBounded has more servers than are remembered.
func TestServerVersionsAreBounded(t *testing.T) {
	var v serverVersions
	for port := range uint16(3 * maxServerVersions / 2) {
		v.learn(netip.AddrPortFrom(netip.IPv4Unspecified(), port), 11)
	}
	if n := len(*v.of.Load()); n > maxServerVersions {
		t.Errorf("%d servers are remembered, want at most %d", n, maxServerVersions)
	}
}
