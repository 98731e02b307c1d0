package source

import (
	"net/netip"
	"testing"
)

func TestSource(t *testing.T) {
	for a, want := range map[string][2]string{
		"192.0.2.77":             {"192.0.2.77/32", "192.0.2.0/24"},
		"::ffff:192.0.2.77":      {"192.0.2.77/32", "192.0.2.0/24"},
		"2001:db8:1:2:3:4:5:6":   {"2001:db8:1:2::/64", "2001:db8:1::/48"},
		"fe80::1:2:3:4%eth0":     {"fe80::/64", "fe80::/48"},
		"2001:db8:ffff:ffff::%9": {"2001:db8:ffff:ffff::/64", "2001:db8:ffff::/48"},
	} {
		s := Of(netip.MustParseAddr(a))
		if got := [2]string{s.Address().String(), s.Network().String()}; got != want {
			t.Errorf("%s: %v, want %v", a, got, want)
		}
	}
	keys := map[uint64]netip.Prefix{}
	for _, a := range []string{"0.0.0.1", "0.0.1.0", "127.0.0.1", "::", "::2:0:0:0:0", "64:ff9b::1", "255.255.255.255"} {
		p := Of(netip.MustParseAddr(a)).Address()
		if keys[Key(p)].IsValid() {
			t.Errorf("%s and %s have one key", a, keys[Key(p)])
		}
		keys[Key(p)] = p
	}
	if s := Of(netip.Addr{}); s.Address().IsValid() || s.Network().IsValid() {
		t.Error("the zero address has a place")
	}
}
