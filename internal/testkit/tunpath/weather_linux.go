package tunpath

import (
	"container/heap"
	"encoding/binary"
	"slices"
	"time"
)

var be = binary.BigEndian

// Parts of the headers of IPv4, UDP and ICMP.
const (
	ipv4Header   = 20
	udpHeader    = 8
	icmpHeader   = 8
	protocolICMP = 1
	protocolUDP  = 17
	dontFragment = 0x4000
	moreFollow   = 0x2000
	offsetMask   = 0x1fff
	unreachable  = 3 // ICMP type
	tooLarge     = 4 // ICMP code
)

// take decides what happens to a packet of one end. It copies what it keeps.
func (p *Path) take(now time.Time, from int, content []byte) {
	w := &p.weather
	switch {
	case len(content) < ipv4Header || content[0] != 0x45:
		return // IPv6's multicasts; nothing here sends options
	case w.Down:
		p.stats.Down++
		return
	case w.MTU == 0 || len(content) <= w.MTU:
		p.impair(now, from, slices.Clone(content))
		return
	}
	p.stats.TooLarge++
	if be.Uint16(content[6:])&dontFragment != 0 {
		p.enqueue(now, from, fragmentationNeeded(content, w.MTU))
		return
	}
	for _, fragment := range fragments(content, w.MTU) {
		p.stats.Fragments++
		p.impair(now, from, fragment)
	}
}

// impair decides what happens to one packet that fits.
func (p *Path) impair(now time.Time, from int, content []byte) {
	w := &p.weather
	if p.rng.Float64() < w.Loss {
		p.stats.Lost++
		return
	}
	if p.rng.Float64() < w.Corruption && p.corrupt(content) {
		p.stats.Corrupted++
	}
	at := now
	if w.Rate > 0 {
		free := p.sendable[from]
		if free.Before(now) {
			free = now
		}
		wait := time.Duration(w.Queue) * time.Second / time.Duration(w.Rate)
		if free.Sub(now) > wait {
			p.stats.Overflowed++
			return
		}
		at = free.Add(time.Duration(len(content)) * time.Second / time.Duration(w.Rate))
		p.sendable[from] = at
	}
	copies := 1
	if p.rng.Float64() < w.Duplication {
		p.stats.Doubled++
		copies++
	}
	for range copies {
		wait := w.Delay + time.Duration(p.rng.Float64()*float64(w.Jitter))
		if p.rng.Float64() < w.Reordering {
			p.stats.Late++
			wait += 4 * (w.Delay + w.Jitter)
		}
		p.enqueue(at.Add(wait), 1-from, content)
	}
}

func (p *Path) enqueue(at time.Time, to int, content []byte) {
	p.order++
	heap.Push(&p.waiting, packet{at, p.order, to, content})
}

// corrupt flips a bit of a UDP datagram's payload, or of a fragment. It returns false for other packets.
func (p *Path) corrupt(b []byte) bool {
	const payload = ipv4Header + udpHeader
	if b[9] != protocolUDP || len(b) <= payload {
		return false
	}
	b[payload+p.rng.IntN(len(b)-payload)] ^= 1 << p.rng.IntN(8)
	return true
}

// fragments splits a packet. The payload of each but the last has a multiple of 8 bytes.
func fragments(b []byte, mtu int) (all [][]byte) {
	most := (mtu - ipv4Header) &^ 7
	flags := be.Uint16(b[6:])
	offset := int(flags&offsetMask) * 8
	for body := b[ipv4Header:]; len(body) > 0; {
		size := min(most, len(body))
		f := append(slices.Clone(b[:ipv4Header]), body[:size]...)
		body = body[size:]
		mark := uint16(offset/8) | flags&moreFollow
		if len(body) > 0 {
			mark |= moreFollow
		}
		offset += size
		be.PutUint16(f[2:], uint16(len(f)))
		be.PutUint16(f[6:], mark)
		sumHeader(f)
		all = append(all, f)
	}
	return all
}

// fragmentationNeeded returns the ICMP message about a packet, from the address that the packet was for.
func fragmentationNeeded(b []byte, mtu int) []byte {
	const quoted = ipv4Header + 8
	m := make([]byte, ipv4Header+icmpHeader, ipv4Header+icmpHeader+quoted)
	m = append(m, b[:min(len(b), quoted)]...)
	m[0], m[8], m[9] = 0x45, 64, protocolICMP
	be.PutUint16(m[2:], uint16(len(m)))
	copy(m[12:16], b[16:20])
	copy(m[16:20], b[12:16])
	sumHeader(m)
	icmp := m[ipv4Header:]
	icmp[0], icmp[1] = unreachable, tooLarge
	be.PutUint16(icmp[6:], uint16(mtu))
	be.PutUint16(icmp[2:], checksum(icmp))
	return m
}

// sumHeader writes the checksum of an IPv4 header.
func sumHeader(b []byte) {
	be.PutUint16(b[10:], 0)
	be.PutUint16(b[10:], checksum(b[:ipv4Header]))
}

// checksum is the Internet's, of an even or odd number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(be.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
