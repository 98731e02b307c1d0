package raknet

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// A server side proves a client's address as Options.Cookies says.

// giveCookie returns the cookie for a first request of a protocol version. A connection gives out cookies with a round
// above 0. No other host needs to know them, so they are private in every mode.
func (p *Protocol) giveCookie(now time.Time, from netip.AddrPort, version, round uint8) uint32 {
	if p.shared != nil && round == 0 {
		return p.shared.give(now, from, version)
	}
	index := min(max(slices.Index(p.o.Versions, version), 0), mostVersions-1)
	return p.cookies.give(now, from, origin{version: uint8(index), round: round})
}

// checkCookie reports whether a cookie proves the address that it comes from, and returns its facts.
func (p *Protocol) checkCookie(now time.Time, from netip.AddrPort, cookie uint32) (origin, bool) {
	said := origin{version: versionOf(cookie)}
	switch p.o.Cookies {
	case CookiesOffloaded:
		return said, isFresh(now, cookie)
	case CookiesOffloadedPSK:
		return said, p.shared.check(now, from, cookie)
	case CookiesActive:
		if p.shared.check(now, from, cookie) {
			return said, true
		}
	}
	o, ok := p.cookies.check(now, from, cookie)
	o.version = p.o.Versions[min(int(o.version), len(p.o.Versions)-1)]
	return o, ok && (o.round > 0 || p.o.Cookies == CookiesPrivate)
}

// hasBegunAnew reports whether a proven request comes from a client without knowledge of its connection: its cookie is
// younger than the connection request, after which a client repeats no earlier step. An offloaded cookie tells only its
// minute. Then a goodbye decides.
func (c *Conn) hasBegunAnew(now time.Time, cookie uint32, o origin) bool {
	switch mode := c.p.o.Cookies; {
	case mode == CookiesNone || c.phase < asked:
		return false
	case mode.offloaded():
		return c.goodbye.Heard || minuteOf(now)-cookieAge(now, cookie) > minuteOf(c.start.Add(c.upSince))
	}
	return o.round == nextRound(c.round)
}

// versionTable holds the versions in first requests, for second requests that have no cookie to tell. Either may be
// forged there. A place holds 56 bits of a hash of the address, and the version.
type versionTable [1024]atomic.Uint64

func (t *versionTable) place(from netip.AddrPort) (place *atomic.Uint64, hash uint64) {
	ip := from.Addr().As16()
	hash = cookieHash(binary.LittleEndian.Uint64(ip[:]), binary.LittleEndian.Uint64(ip[8:]), nil) + uint64(from.Port())<<8
	return &t[hash>>8%uint64(len(t))], hash &^ 0xff
}

func (t *versionTable) note(from netip.AddrPort, version uint8) {
	place, hash := t.place(from)
	place.Store(hash | uint64(version))
}

// of returns the version of a client, or the given one if it is not known.
func (t *versionTable) of(from netip.AddrPort, unknown uint8) uint8 {
	place, hash := t.place(from)
	if known := place.Load(); known&^0xff == hash && known != 0 {
		return uint8(known)
	}
	return unknown
}
