package raknet

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

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
