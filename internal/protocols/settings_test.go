package protocols

import (
	"strings"
	"testing"
	"time"

	"tidegate/codec/raknet"
	"tidegate/codec/rtype"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// TestCookiesOfBothSides: clients prove their addresses in one mode, and we prove ours to servers in another.
func TestCookiesOfBothSides(t *testing.T) {
	o := Bedrock.Options().(*RakNetSettings)
	o.CookieSecret = units.Key(strings.Repeat("01", 32))
	for _, c := range []struct {
		clients        raknet.CookieMode
		servers        string
		want, upstream raknet.CookieMode
		secret         bool // of the upstream
	}{
		{raknet.CookiesPrivate, "active", raknet.CookiesPrivate, raknet.CookiesPrivate, false},
		{raknet.CookiesNone, "offloaded", raknet.CookiesNone, raknet.CookiesOffloaded, true},
		{raknet.CookiesActive, "offloaded_psk", raknet.CookiesActive, raknet.CookiesOffloadedPSK, true},
		{raknet.CookiesOffloadedPSK, "active", raknet.CookiesOffloadedPSK, raknet.CookiesPrivate, false},
	} {
		o.CookieMode = c.clients
		if got, _ := o.cookies(nil); got != c.want {
			t.Errorf("clients %s: mode %s, want %s", c.clients, got, c.want)
		}
		got, secret := o.cookies(&registry.Servers{Cookies: c.servers, Secret: o.CookieSecret.Bytes()})
		if got != c.upstream || (secret[0] == 1) != c.secret {
			t.Errorf("servers %s: mode %s with secret %x, want %s", c.servers, got, secret[0], c.upstream)
		}
	}
}

// TestHeldFor: what waits for an earlier message fits into the queue to the other side.
func TestHeldFor(t *testing.T) {
	s := RakNetSettings{MaxMTU: 1492, MaxMessage: 1 << 10}
	for queue, want := range map[int]int{0: 4 << 20, 1 << 20: 512 << 10, 4 << 20: 2 << 20, 64 << 20: 4 << 20} {
		if got := s.with(raknet.Options{}, registry.Use{Queue: queue}).MaxHeld; got != want {
			t.Errorf("queue of %d: %d bytes may wait, want %d", queue, got, want)
		}
	}
}

// TestRefreshBringsCopies repeats the initialisation on paths for which the configuration wants refreshes.
func TestRefreshBringsCopies(t *testing.T) {
	for refresh, want := range map[units.Duration]int{0: 0, units.Duration(time.Second): lossyCopies} {
		s := rtypeDefaults()
		if s.Refresh = refresh; s.with(rtype.Game32, registry.Use{}).Copies != want {
			t.Errorf("with refresh = %s: %d copies, want %d", refresh, s.with(rtype.Game32, registry.Use{}).Copies, want)
		}
	}
}
