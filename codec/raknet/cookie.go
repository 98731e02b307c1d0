package raknet

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

// CookieMode is who gives a client the cookie by which it proves its address, and who checks it
// (docs/protocols/raknet.md#cookies).
type CookieMode uint8

// Ways to prove an address.
const (
	// CookiesPrivate are given and checked by this server alone.
	CookiesPrivate CookieMode = iota
	// CookiesNone leaves the proof out, for peers that cannot read a cookie. Anyone can then make connections in the name
	// of any address.
	CookiesNone
	// CookiesActive are given and checked by this server, in the published form and with Options.CookieSecret, so that
	// others who have the secret may give or check them as well.
	CookiesActive
	// CookiesOffloaded are given and checked by whoever stands before the server, which looks at their age only. The
	// dialling side stands before a server: it makes them itself.
	CookiesOffloaded
	// CookiesOffloadedPSK are given by whoever stands before the server, which checks them by Options.CookieSecret. The
	// dialling side makes them itself.
	CookiesOffloadedPSK
)

// offloaded reports whether somebody else answers the first request.
func (m CookieMode) offloaded() bool { return m == CookiesOffloaded || m == CookiesOffloadedPSK }

// cookieLife is how long a cookie is good for at least; it may be twice as long.
const cookieLife = 5 * time.Second

// cookies are private ones. They prove that a client receives what is sent to its address, before anything is kept of
// it: the server gives it a number that only the server can make, and the client gives it back
// (docs/protocols/raknet.md#open-connection).
type cookies struct{ seed *[32]byte }

// origin is what a private cookie remembers of the request that it answered: its low three bits.
type origin struct {
	longList bool // the client's version lists 20 addresses, which its second request does not say
	// round is 0 for a client that was not connected; a connection gives the round after the one it was opened with. So
	// a second request that has it is no late copy of one from before: its client has begun anew.
	round uint8
}

const (
	longListBit = 1
	roundShift  = 1
	originBits  = 0b111
)

func (o origin) bits() uint32 {
	bits := uint32(o.round) << roundShift
	if o.longList {
		bits |= longListBit
	}
	return bits
}

// nextRound goes from 1 to 3 and never back to 0. Four clients would have to follow each other within the life of a
// cookie until one was taken for another.
func nextRound(round uint8) uint8 { return round%3 + 1 }

// give returns the cookie for a client at an address.
func (c cookies) give(now time.Time, from netip.AddrPort, o origin) uint32 {
	return c.at(bin(now), from, o.bits())
}

// check reports whether a cookie was given to the address a short while ago, and what it says.
func (c cookies) check(now time.Time, from netip.AddrPort, cookie uint32) (o origin, ok bool) {
	bits := cookie & originBits
	newest := bin(now)
	ok = cookie == c.at(newest, from, bits) || cookie == c.at(newest-1, from, bits)
	return origin{longList: bits&longListBit != 0, round: uint8(bits >> roundShift)}, ok
}

// at is the cookie of one bin of time: SHA-256 of the seed, the bin, the address, the port and the origin, all of fixed
// length, cut to 29 bits before those of the origin.
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

// guidFrom derives a GUID, never 0, from the seed and a label.
func guidFrom(seed *[32]byte, label []byte) uint64 {
	h := sha256.New()
	h.Write(seed[:])
	h.Write(label)
	return max(1, binary.BigEndian.Uint64(h.Sum(nil)))
}
