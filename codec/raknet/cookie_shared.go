package raknet

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

// sharedCookies are those of CloudburstMC's Network library, which everybody who has the secret can give and check
// (docs/protocols/raknet.md#cookies):
//
//	bits 31..8  low 24 bits of the cookieHash of address, port (2 bytes, big-endian) and the low byte
//	bits 7..4   minute, modulo 16
//	bits 3..0   protocol version less 1
//
// The hash's key is the first half of HMAC-SHA256(secret, epoch as 8 bytes, big-endian), as two little-endian words; an
// epoch has ten minutes. A cookie is good in its minute and the next.
type sharedCookies struct {
	inner, outer [sha256.BlockSize]byte // the secret as HMAC pads it
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

// check reports whether a cookie was given to the address a short while ago.
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

// key is HMAC-SHA256 in full, since crypto/hmac allocates.
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

// cookieAge is how many minutes ago a cookie says that it was given, modulo 16.
func cookieAge(now time.Time, cookie uint32) int64 { return (minuteOf(now) - int64(cookie>>4)) & 0xf }

// isFresh reports whether a cookie says that it was given in this minute or the one before.
func isFresh(now time.Time, cookie uint32) bool { return cookieAge(now, cookie) <= 1 }

// versionOf is the protocol version that a cookie names.
func versionOf(cookie uint32) uint8 { return uint8(cookie&0xf) + 1 }
