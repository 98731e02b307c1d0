package stats

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/testkit/allocs"
)

// address returns the i-th address of many.
func address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 5000)
}

// TestRecentDropsAreBounded asserts that a flood of addresses and reasons leaves a fixed number of drops. A flood
// from one address does not evict another address's drops.
func TestRecentDropsAreBounded(t *testing.T) {
	var r Recent
	victim := netip.MustParseAddrPort("192.0.2.1:1000")
	now := time.Unix(1_700_000_000, 0)
	r.Add(now, DropMalformed, "play", victim, 1, nil)
	loud := netip.MustParseAddr("198.51.100.1")
	for i := range 100_000 {
		r.Add(now, Drop(i%int(DropCount)), "play", netip.AddrPortFrom(loud, uint16(i)), 1, nil)
	}
	if got := r.Of(loud, nil); len(got) != shelfSize {
		t.Errorf("%d drops of one address, want the last %d", len(got), shelfSize)
	}
	if got := r.Of(victim.Addr(), nil); len(got) != 1 {
		t.Errorf("%d drops of another", len(got))
	}
	for i := range 100_000 {
		r.Add(now, DropMalformed, "play", netip.AddrPortFrom(address(i).Addr(), uint16(i)), 1, nil)
	}
	kept := 0
	for i := range r.shelves {
		for j := range r.shelves[i].drops {
			if r.shelves[i].drops[j].Times > 0 {
				kept++
			}
		}
	}
	if kept != shelves*shelfSize {
		t.Errorf("%d are kept, want every place to be used", kept)
	}
	i := 0
	if n := allocs.PerRun(1000, func() { i++; r.Add(now, DropMalformed, "play", address(i), 1, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
