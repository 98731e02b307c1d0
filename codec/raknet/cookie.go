package raknet

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"tidegate/internal/enum"
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
