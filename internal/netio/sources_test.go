package netio

import (
	"net/netip"
	"testing"
)

func TestSources(t *testing.T) {
	for _, c := range []struct {
		prefix string
		usable uint64
		n      uint64
		want   string
	}{
		{"127.64.0.0/10", 1<<22 - 2, 0, "127.64.0.1"},
		{"127.64.0.0/10", 1<<22 - 2, 255, "127.64.1.0"},
		{"127.64.0.0/10", 1<<22 - 2, 1<<22 - 3, "127.127.255.254"},
		{"10.1.2.77/24", 254, 253, "10.1.2.254"},
		{"10.1.2.3/32", 1, 0, "10.1.2.3"},
		{"10.1.2.2/31", 2, 1, "10.1.2.3"},
		{"fd00:1::/64", 1<<32 - 2, 1 << 20, "fd00:1::10:1"},
		{"fd00:1::ffff:0/112", 1<<16 - 2, 7, "fd00:1::ffff:8"},
	} {
		prefix := netip.MustParsePrefix(c.prefix)
		if got := usableSources(prefix); got != c.usable {
			t.Errorf("%s has %d sources, want %d", prefix, got, c.usable)
		}
		if got := nthSource(prefix, c.n); got.String() != c.want {
			t.Errorf("source %d of %s is %s, want %s", c.n, prefix, got, c.want)
		}
	}
}
