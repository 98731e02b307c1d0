package setup

import (
	"tidegate/codec/raknet"
	"tidegate/internal/config"
)

// cookies is how RakNet clients prove their address: players to us, or, towards an upstream, we to its servers.
func cookies(c *config.RakNet, u *config.Upstream) (mode raknet.CookieMode, secret [32]byte) {
	switch {
	case u != nil && u.CookieMode == config.CookieActive:
		return raknet.CookiesPrivate, secret // of which its clients know nothing
	case u != nil:
		return cookieModes[u.CookieMode], u.CookieSecret.Bytes()
	case !c.Cookies:
		return raknet.CookiesNone, secret
	}
	return cookieModes[c.CookieMode], c.CookieSecret.Bytes()
}

var cookieModes = map[config.CookieMode]raknet.CookieMode{
	config.CookiePrivate: raknet.CookiesPrivate, config.CookieActive: raknet.CookiesActive,
	config.CookieOffloaded: raknet.CookiesOffloaded, config.CookieOffloadedPSK: raknet.CookiesOffloadedPSK,
}
