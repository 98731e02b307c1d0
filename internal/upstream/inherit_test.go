package upstream

import (
	"net/netip"
	"slices"
	"testing"
)

// TestInherit: what an operator has drained stays so in a successor, which may hear of a server later.
func TestInherit(t *testing.T) {
	old := New(At(a, b), Options{})
	old.Discover(At(c))
	for _, addr := range []netip.AddrPort{a, c} {
		if err := old.Drain(now, addr, true); err != nil {
			t.Fatal(err)
		}
	}
	p := New(At(a, b), Options{})
	p.InheritDrains(now, old.Drained())
	if got := p.Drained(); !slices.Equal(got, []netip.AddrPort{a, c}) {
		t.Errorf("drained are %v, want a and c", got)
	}
	p.Discover(At(c))
	pick(t, p, now, b)
	pick(t, p, now, b)
	for _, addr := range p.Drained() {
		if err := p.Drain(now, addr, false); err != nil {
			t.Fatal(err)
		}
	}
	p.Discover(nil)
	p.Discover(At(c)) // listed once more, it is not drained again
	if got := p.Drained(); len(got) != 0 {
		t.Errorf("drained are %v after all", got)
	}
}
