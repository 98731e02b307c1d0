package raknet

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"tidegate/internal/enum"
	"tidegate/internal/siphash"
)

// CookieMode says which side gives a client the cookie that proves its address, and which side checks it
// (docs/protocols/raknet/join.md#cookies).
type CookieMode uint8

// Ways to prove an address.
const (
	// CookiesPrivate: this server alone gives and checks the cookies.
	CookiesPrivate CookieMode = iota
	// CookiesNone: there is no proof, for peers that cannot read a cookie. Anyone can then connect from a forged address.
	CookiesNone
	// CookiesActive: this server gives and checks the cookies, in the published form and with Options.CookieSecret. Other
	// hosts with the secret may give or check them as well.
	CookiesActive
	// CookiesOffloaded: a front proxy gives and checks the cookies, and the server checks only their age. On the dialing
	// side we are the front proxy and make them.
	CookiesOffloaded
	// CookiesOffloadedPSK: a front proxy gives the cookies, and the server checks them with Options.CookieSecret. The
	// dialing side makes them itself.
	CookiesOffloadedPSK
)

// cookieModes holds the modes' names in the configuration.
var cookieModes = []string{
	CookiesPrivate: "private", CookiesNone: "none", CookiesActive: "active", CookiesOffloaded: "offloaded",
	CookiesOffloadedPSK: "offloaded_psk",
}

// String returns the mode's name in the configuration.
func (m CookieMode) String() string { return enum.Name(cookieModes, m) }

// UnmarshalText reads String's form.
func (m *CookieMode) UnmarshalText(text []byte) error { return enum.Parse(cookieModes, text, m) }

// Choices lists the modes that UnmarshalText reads.
func (CookieMode) Choices() []string { return cookieModes }

// offloaded reports whether a front proxy answers the first request.
func (m CookieMode) offloaded() bool { return m == CookiesOffloaded || m == CookiesOffloadedPSK }

// cookieLife is how long a cookie is valid at least; it may be twice as long.
const cookieLife = 5 * time.Second

// cookies are private ones. A cookie proves that a client receives datagrams at its address, before the server stores
// anything about it. The server sends a number that only the server can make, and the client echoes it
// (docs/protocols/raknet/join.md#open-connection).
type cookies struct{ seed *[32]byte }

// origin holds facts about the request that a cookie answered. A private cookie has them in its low five bits.
type origin struct {
	// version is the client's, which its second request does not say. A private cookie has its index in Options.Versions.
	version uint8
	// round is 0 for a client that was not connected. A connection gives out the round after its own. So a second request
	// with that round is not a late copy of an earlier one: its client has started again.
	round uint8
}

const (
	mostVersions = 8 // with an index
	roundShift   = 3
	originBits   = 0b11111
)

func (o origin) bits() uint32 { return uint32(o.round)<<roundShift | uint32(o.version) }

// nextRound goes from 1 to 3 and never back to 0. Confusion would need four successive clients at one address within
// the life of a cookie.
func nextRound(round uint8) uint8 { return round%3 + 1 }

// give returns the cookie for a client at an address.
func (c cookies) give(now time.Time, from netip.AddrPort, o origin) uint32 {
	return c.at(bin(now), from, o.bits())
}

// check reports whether the address received a cookie recently, and returns its facts.
func (c cookies) check(now time.Time, from netip.AddrPort, cookie uint32) (o origin, ok bool) {
	bits := cookie & originBits
	newest := bin(now)
	ok = cookie == c.at(newest, from, bits) || cookie == c.at(newest-1, from, bits)
	return origin{version: uint8(bits % mostVersions), round: uint8(bits >> roundShift)}, ok
}

// at returns the cookie for one time bin: 27 bits of a hash, followed by the bits of the origin. The hash is the
// SHA-256 of the seed, the bin, the address, the port and the origin, all of fixed length.
func (c cookies) at(bin uint64, from netip.AddrPort, bits uint32) uint32 {
	var b [32 + 8 + 16 + 2 + 1]byte
	copy(b[:], c.seed[:])
	binary.BigEndian.PutUint64(b[32:], bin)
	ip := from.Addr().As16()
	copy(b[40:], ip[:])
	binary.BigEndian.PutUint16(b[56:], from.Port())
	b[58] = byte(bits)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint32(sum[:])&^originBits | bits
}

func bin(now time.Time) uint64 { return uint64(now.UnixNano() / int64(cookieLife)) }

// guidFrom derives a GUID from the seed and a label. Its top bit is set, as Minecraft's is: newer go-raknet blocks the
// address of a client without it, and all clients of a proxy have one address.
func guidFrom(seed *[32]byte, label []byte) uint64 {
	h := sha256.New()
	h.Write(seed[:])
	h.Write(label)
	return binary.BigEndian.Uint64(h.Sum(nil)) | 1<<63
}

// cookieHash is the hash of shared cookies. Up to 7 bytes, enough for an IPv4 address, it is SipHash-2-4 (Aumasson and
// Bernstein, 2012). For longer input CloudburstMC's library mixes each whole word of 8 bytes into v3 after the rounds
// instead of before. cookieHash does the same, so that it agrees with that library about an IPv6 address.
func cookieHash(k0, k1 uint64, b []byte) uint64 {
	s := siphash.New(k0, k1)
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		word := binary.LittleEndian.Uint64(b)
		s.Rounds(2)
		s[0] ^= word
		s[3] ^= word
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	s.Word(last, 2)
	return s.Sum(4)
}

// sharedCookies are those of CloudburstMC's Network library. Every host with the secret can give and check them
// (docs/protocols/raknet/join.md#cookies):
//
//	bits 31..8  low 24 bits of the cookieHash of address, port (2 bytes, big-endian) and the low byte
//	bits 7..4   minute, modulo 16
//	bits 3..0   protocol version less 1
//
// The hash's key is the first half of HMAC-SHA256(secret, epoch as 8 bytes, big-endian), as two little-endian words.
// An epoch has ten minutes. A cookie is valid in its minute and the next.
type sharedCookies struct {
	inner, outer [sha256.BlockSize]byte // the secret, padded for HMAC
}

const minutesPerEpoch = 10

func newSharedCookies(secret [32]byte) *sharedCookies {
	c := new(sharedCookies)
	copy(c.inner[:], secret[:])
	copy(c.outer[:], secret[:])
	for i := range c.inner {
		c.inner[i] ^= 0x36
		c.outer[i] ^= 0x5c
	}
	return c
}

// give returns the cookie for a client of a protocol version at an address.
func (c *sharedCookies) give(now time.Time, from netip.AddrPort, version uint8) uint32 {
	minute := minuteOf(now)
	return c.at(minute, from, byte(minute&0xf)<<4|(version-1)&0xf)
}

// check reports whether the address received a cookie recently.
func (c *sharedCookies) check(now time.Time, from netip.AddrPort, cookie uint32) bool {
	return isFresh(now, cookie) && cookie == c.at(minuteOf(now)-cookieAge(now, cookie), from, byte(cookie))
}

func (c *sharedCookies) at(minute int64, from netip.AddrPort, low byte) uint32 {
	k0, k1 := c.key(minute / minutesPerEpoch)
	var room [16 + 2 + 1]byte
	b := appendIP(room[:0], from.Addr().Unmap())
	b = append(binary.BigEndian.AppendUint16(b, from.Port()), low)
	return uint32(cookieHash(k0, k1, b))<<8 | uint32(low)
}

func appendIP(b []byte, ip netip.Addr) []byte {
	if ip.Is4() {
		v4 := ip.As4()
		return append(b, v4[:]...)
	}
	v6 := ip.As16()
	return append(b, v6[:]...)
}

// key is a whole HMAC-SHA256, because crypto/hmac allocates.
func (c *sharedCookies) key(epoch int64) (k0, k1 uint64) {
	var in [sha256.BlockSize + 8]byte
	copy(in[:], c.inner[:])
	binary.BigEndian.PutUint64(in[sha256.BlockSize:], uint64(epoch))
	sum := sha256.Sum256(in[:])
	var out [sha256.BlockSize + sha256.Size]byte
	copy(out[:], c.outer[:])
	copy(out[sha256.BlockSize:], sum[:])
	sum = sha256.Sum256(out[:])
	return binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// cookieAge returns the age of a cookie in minutes, modulo 16, as the cookie says.
func cookieAge(now time.Time, cookie uint32) int64 { return (minuteOf(now) - int64(cookie>>4)) & 0xf }

// isFresh reports whether a cookie is from this minute or the previous one, as the cookie says.
func isFresh(now time.Time, cookie uint32) bool { return cookieAge(now, cookie) <= 1 }

// versionOf returns the protocol version in a cookie.
func versionOf(cookie uint32) uint8 { return uint8(cookie&0xf) + 1 }

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
