package config

import (
	"net/netip"
	"slices"
	"testing"
)

// TestChanges asserts that changed, new and removed keys are listed with the names of their tables.
func TestChanges(t *testing.T) {
	server := func(addr string) []Server { return []Server{ServerAt(netip.MustParseAddrPort(addr))} }
	before, after := Default(), Default()
	before.Upstreams = []Upstream{{Name: "arena", Servers: server("10.0.0.5:7777")}, {Name: "lobby"}}
	after.Upstreams = []Upstream{{Name: "arena", Servers: server("10.0.0.6:7777")}}
	before.Limits.Sessions, after.Limits.Sessions = 100, 200
	changes := before.Changes(after)
	for _, want := range []Change{
		{"limits sessions", "100", "200"},
		{`upstream "arena".servers 1 address`, `"10.0.0.5:7777"`, `"10.0.0.6:7777"`},
	} {
		if !slices.Contains(changes, want) {
			t.Errorf("%+v is missing in %+v", want, changes)
		}
	}
	if i := slices.IndexFunc(changes, func(c Change) bool { return c.Key == `upstream "lobby" protocol` }); i < 0 ||
		changes[i].New != "" {
		t.Errorf("the removed upstream is missing in %+v", changes)
	}
	if same := before.Changes(before); len(same) != 0 {
		t.Errorf("%+v of equal configurations", same)
	}
}
