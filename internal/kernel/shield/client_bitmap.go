package shield

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
)

// ClientBitmap is a set of known clients for GuardClassic, compiled into the filter. All known clients pass. About 1 in
// 32 strangers matches by chance, and more beyond 256 clients: 1 in 16 at 500 clients. The other strangers are hashed
// into partitions. One partition at a time may pass, long enough for a handshake.
type ClientBitmap struct {
	seed       uint32
	words      []uint32 // a power of two
	partitions uint32   // a power of two
	turn       uint32
}

// The words are code. A filter may have 4,096 instructions, and 20 KiB in all on older kernels. Attaching a large
// filter takes up to 2 ms.
const (
	leastWords     = 8
	mostWords      = 256
	mostPartitions = 256
	wordBits       = 5 // bits of a hash that select a bit in a word; the next bits select the partition
)

// bitmapMixer mixes the hash that selects a client's bit.
const bitmapMixer = 0x9e3779b1

// NewClientBitmap returns a bitmap without clients. Strangers have the given number of partitions, rounded up to a
// power of two, at most 256.
func NewClientBitmap(partitions int) *ClientBitmap {
	return &ClientBitmap{
		seed: rand.Uint32(), words: make([]uint32, leastWords),
		partitions: uint32(powerOfTwo(partitions, mostPartitions)),
	}
}

// Clear forgets all clients, and makes room for the given number. The partitions stay.
func (s *ClientBitmap) Clear(clients int) {
	s.words = make([]uint32, max(leastWords, powerOfTwo(clients, mostWords)))
}

// Batch returns the number of sockets that can get filters in a row, in the time that the largest filter takes. A nil
// ClientBitmap counts as the smallest.
func (s *ClientBitmap) Batch() int {
	if s == nil {
		return mostWords / leastWords
	}
	return mostWords / len(s.words)
}

// Next lets the next partition of strangers pass.
func (s *ClientBitmap) Next() { s.turn = (s.turn + 1) % s.partitions }

// Know lets a client's datagrams pass.
func (s *ClientBitmap) Know(client netip.AddrPort) {
	h := s.hash(client)
	s.words[s.word(h)] |= 1 << (h % 32)
}

// word returns the index of a hash's word: its highest bits.
func (s *ClientBitmap) word(hash uint32) int { return int(uint64(hash) >> s.wordShift()) }

func (s *ClientBitmap) wordShift() int { return 32 - bits.Len(uint(len(s.words))-1) }

// hash equals the filter's hash of the address's words and the port.
func (s *ClientBitmap) hash(client netip.AddrPort) uint32 {
	h := s.seed
	ip := client.Addr().Unmap()
	for b := ip.AsSlice(); len(b) > 0; b = b[4:] {
		h = (h ^ binary.BigEndian.Uint32(b)) * bitmapMixer
	}
	h = (h ^ uint32(client.Port())) * bitmapMixer
	return (h ^ h>>15) * bitmapMixer
}

// powerOfTwo returns the least power of two that is at least n, but at most most.
func powerOfTwo(n, most int) int { return min(1<<bits.Len(uint(max(n, 1)-1)), most) }
