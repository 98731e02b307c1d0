package filter

import (
	"bytes"
	"net/netip"
	"testing"

	"tidegate/internal/cidr"
)

// FuzzSource compares a Set's answer with a linear search through its prefixes.
func FuzzSource(f *testing.F) {
	f.Add([]byte("192.0.2.0/24\n192.0.0.0/16\n192.0.2.9"), "192.0.2.9")
	f.Fuzz(func(t *testing.T, text []byte, from string) {
		list, err := cidr.Read(bytes.NewReader(text))
		addr, errAddr := netip.ParseAddr(from)
		if err != nil || errAddr != nil || len(list) > MaxRules {
			return
		}
		var rules Rules
		var want Match
		want.Rule = -1
		for i, p := range list {
			rules.Sources = append(rules.Sources, Source{Prefixes: []netip.Prefix{p}})
			if want.Rule < 0 && p.Contains(addr.Unmap().WithZone("")) {
				want.Rule = i
			}
		}
		s, err := New(rules)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Source("", addr); got != want {
			t.Fatalf("%s in %v: %+v, want %+v", addr, list, got, want)
		}
	})
}
