package shield

import (
	"net/netip"
	"slices"
	"testing"
)

// strangers returns n addresses, of both families.
func strangers(n int) (all []netip.AddrPort) {
	ip6 := netip.MustParseAddr("2001:db8::").As16()
	for i := range n {
		ip6[13], ip6[14], ip6[15] = byte(i>>16), byte(i>>8), byte(i)
		addr := netip.AddrFrom16(ip6)
		if i%2 == 0 {
			addr = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		}
		all = append(all, netip.AddrPortFrom(addr, uint16(1024+i%7)))
	}
	return all
}

// TestKnownAreBounded checks that all clients up to the bound find room, and that further clients stay strangers and do
// no harm.
func TestKnownAreBounded(t *testing.T) {
	const most = 50_000
	s := newShield(t, Options{Known: most})
	gate, all := s.Gate(0), strangers(most+500)
	for _, client := range all {
		gate.Know(client, 7777)
	}
	if s.Known() != most {
		t.Errorf("%d are known, want %d", s.Known(), most)
	}
	for _, client := range slices.Backward(all) {
		gate.Forget(client, 7777)
	}
	if s.Known() != 0 {
		t.Errorf("%d are still known", s.Known())
	}
	if slices.ContainsFunc(s.gates.known.memory, func(b byte) bool { return b != 0 }) {
		t.Error("a mark was left behind")
	}
}

// TestKnownTwice checks that a client at two listeners with one port stays known until both sessions end.
func TestKnownTwice(t *testing.T) {
	s := newShield(t, Options{})
	gate, client := s.Gate(0), strangers(1)[0]
	for step, want := range []int{1, 2, 1, 0, 0} {
		if step < 2 {
			gate.Know(client, 7777)
		} else {
			gate.Forget(client, 7777)
		}
		if s.Known() != want {
			t.Errorf("step %d: %d are known, want %d", step, s.Known(), want)
		}
	}
}
