package raknet

import (
	"net/netip"
	"time"
)

// A server side proves a client's address as Options.Cookies says.

// giveCookie returns the cookie for a first request of a protocol version. A connection gives out cookies with a round
// above 0. No other host needs to know them, so they are private in every mode.
func (p *Protocol) giveCookie(now time.Time, from netip.AddrPort, version, round uint8) uint32 {
	if p.shared != nil && round == 0 {
		return p.shared.give(now, from, version)
	}
	return p.cookies.give(now, from, origin{longList: version >= firstLongList, round: round})
}

// checkCookie reports whether a cookie proves the address that it comes from, and returns its facts.
func (p *Protocol) checkCookie(now time.Time, from netip.AddrPort, cookie uint32) (origin, bool) {
	said := origin{longList: versionOf(cookie) >= firstLongList}
	switch p.o.Cookies {
	case CookiesOffloaded:
		return said, isFresh(now, cookie)
	case CookiesOffloadedPSK:
		return said, p.shared.check(now, from, cookie)
	case CookiesActive:
		if p.shared.check(now, from, cookie) {
			return said, true
		}
		o, ok := p.cookies.check(now, from, cookie)
		return o, ok && o.round > 0
	}
	return p.cookies.check(now, from, cookie)
}

// hasBegunAnew reports whether a proven request comes from a client without knowledge of its connection: its cookie is
// younger than the complete connection. An offloaded cookie tells only its minute. Then a goodbye decides.
func (c *Conn) hasBegunAnew(now time.Time, cookie uint32, o origin) bool {
	switch mode := c.p.o.Cookies; {
	case mode == CookiesNone || c.phase < connected:
		return false
	case mode.offloaded():
		return c.goodbye.heard || minuteOf(now)-cookieAge(now, cookie) > minuteOf(c.start.Add(c.upSince))
	}
	return o.round == nextRound(c.round)
}
