package setup

import (
	"strings"
	"testing"

	"tidegate/codec/raknet"
	"tidegate/internal/config"
)

func TestCookiesOfBothSides(t *testing.T) {
	o := config.Default().Bedrock
	o.CookieSecret = config.Key(strings.Repeat("01", 32))
	for _, c := range []struct {
		players, servers config.CookieMode
		off              bool
		want, upstream   raknet.CookieMode
		secret           bool // of the upstream
	}{
		{config.CookiePrivate, config.CookieActive, false, raknet.CookiesPrivate, raknet.CookiesPrivate, false},
		{config.CookiePrivate, config.CookieOffloaded, true, raknet.CookiesNone, raknet.CookiesOffloaded, true},
		{config.CookieActive, config.CookieOffloadedPSK, false, raknet.CookiesActive, raknet.CookiesOffloadedPSK, true},
		{config.CookieOffloadedPSK, config.CookieActive, false, raknet.CookiesOffloadedPSK, raknet.CookiesPrivate, false},
	} {
		o.CookieMode, o.Cookies = c.players, !c.off
		if got, secret := cookies(&o, nil); got != c.want || (secret[0] == 1) == c.off {
			t.Errorf("players %s, off %v: mode %d with secret %x, want %d", c.players, c.off, got, secret[0], c.want)
		}
		u := config.Upstream{CookieMode: c.servers, CookieSecret: o.CookieSecret}
		if got, secret := cookies(&o, &u); got != c.upstream || (secret[0] == 1) != c.secret {
			t.Errorf("servers %s: mode %d with secret %x, want %d", c.servers, got, secret[0], c.upstream)
		}
	}
}
