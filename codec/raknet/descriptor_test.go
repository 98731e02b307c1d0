package raknet

import (
	"strings"
	"testing"

	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// TestCookiesOfBothSides: clients prove their addresses by one mode, and we ours to servers by another.
func TestCookiesOfBothSides(t *testing.T) {
	o := Bedrock.Options().(*Settings)
	o.CookieSecret = units.Key(strings.Repeat("01", 32))
	for _, c := range []struct {
		clients        CookieMode
		servers        string
		off            bool
		want, upstream CookieMode
		secret         bool // of the upstream
	}{
		{CookiesPrivate, "active", false, CookiesPrivate, CookiesPrivate, false},
		{CookiesPrivate, "offloaded", true, CookiesNone, CookiesOffloaded, true},
		{CookiesActive, "offloaded_psk", false, CookiesActive, CookiesOffloadedPSK, true},
		{CookiesOffloadedPSK, "active", false, CookiesOffloadedPSK, CookiesPrivate, false},
	} {
		o.CookieMode, o.Cookies = c.clients, !c.off
		if got, secret := o.cookies(nil); got != c.want || (secret[0] == 1) == c.off {
			t.Errorf("clients %s, off %v: mode %s with secret %x, want %s", c.clients, c.off, got, secret[0], c.want)
		}
		got, secret := o.cookies(&registry.Servers{Cookies: c.servers, Secret: o.CookieSecret.Bytes()})
		if got != c.upstream || (secret[0] == 1) != c.secret {
			t.Errorf("servers %s: mode %s with secret %x, want %s", c.servers, got, secret[0], c.upstream)
		}
	}
}
