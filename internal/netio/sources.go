package netio

import (
	"errors"
	"net/netip"
)

// ErrNoSource is that every address of SocketOptions.Sources is taken at the server that was dialed.
var ErrNoSource = errors.New("no source address is free")

// maxHostBits is how many bits of an address are used to tell sources apart: of an IPv6 prefix that is plenty.
const maxHostBits = 32

// usable is how many addresses of a prefix can be a source: not the first and not the last of a network, which have
// meanings of their own.
func usable(p netip.Prefix) uint64 {
	bits := min(p.Addr().BitLen()-p.Bits(), maxHostBits)
	if bits < 2 {
		return 1 << bits
	}
	return 1<<bits - 2
}

// nthSource is the n-th address of those that are usable.
func nthSource(p netip.Prefix, n uint64) netip.Addr {
	if p.Addr().BitLen()-p.Bits() >= 2 {
		n++
	}
	if first := p.Masked().Addr(); first.Is4() {
		b := first.As4()
		add(b[:], n)
		return netip.AddrFrom4(b)
	}
	b := p.Masked().Addr().As16()
	add(b[:], n)
	return netip.AddrFrom16(b)
}

// add adds n to a big-endian number.
func add(number []byte, n uint64) {
	for i := len(number) - 1; n > 0; i-- {
		n += uint64(number[i])
		number[i] = byte(n)
		n >>= 8
	}
}
