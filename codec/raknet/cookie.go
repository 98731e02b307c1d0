package raknet

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

// cookieLife is how long a cookie is good for at least; it may be twice as long.
const cookieLife = 5 * time.Second

// cookies proves that a client receives what is sent to its address, before anything is kept of it: the server gives it
// a number that only the server can make, and the client gives it back (docs/protocols/raknet.md#open-connection). The
// lowest bit tells whether the client's version lists 20 addresses, which its second request does not say.
type cookies struct{ seed *[32]byte }

const longListBit = 1

// give returns the cookie for a client at an address.
func (c cookies) give(now time.Time, from netip.AddrPort, longList bool) uint32 {
	return c.at(bin(now), from, longList)
}

// check reports whether a cookie was given to the address a short while ago, and what it says.
func (c cookies) check(now time.Time, from netip.AddrPort, cookie uint32) (longList, ok bool) {
	longList = cookie&longListBit != 0
	newest := bin(now)
	return longList, cookie == c.at(newest, from, longList) || cookie == c.at(newest-1, from, longList)
}

// at is the cookie of one bin of time: SHA-256 of the seed, the bin, the address and the port, all of fixed length,
// cut to 32 bits.
func (c cookies) at(bin uint64, from netip.AddrPort, longList bool) uint32 {
	var b [32 + 8 + 16 + 2 + 1]byte
	copy(b[:], c.seed[:])
	binary.BigEndian.PutUint64(b[32:], bin)
	ip := from.Addr().As16()
	copy(b[40:], ip[:])
	binary.BigEndian.PutUint16(b[56:], from.Port())
	bit := uint32(0)
	if longList {
		bit = longListBit
	}
	b[58] = byte(bit)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint32(sum[:])&^longListBit | bit
}

func bin(now time.Time) uint64 { return uint64(now.UnixNano() / int64(cookieLife)) }

// guidFrom derives a GUID, never 0, from the seed and a label.
func guidFrom(seed *[32]byte, label []byte) uint64 {
	h := sha256.New()
	h.Write(seed[:])
	h.Write(label)
	return max(1, binary.BigEndian.Uint64(h.Sum(nil)))
}
