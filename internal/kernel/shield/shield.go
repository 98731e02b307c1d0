// Package shield drops hostile datagrams in the kernel, before they cost a wake-up: datagrams of banned networks,
// datagrams with an impossible first byte, and datagrams of sources that send too many. It uses a filter on each
// listening socket, and XDP on network interfaces if the operator asks for it.
//
// It judges single datagrams by source and first byte, and knows no sessions. User space judges everything again that
// it lets pass, and does all the work if the kernel cannot help. Loops report their known clients, and a Gate holds all
// other sources to the amount that user space can read. So a flood of strangers leaves room for known clients.
//
// Start with New. There is no compiler: the programs use the assembler of cilium/ebpf. The part that both kinds of
// program share is in program_linux.go.
package shield

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
)

// Options configure a Shield.
type Options struct {
	// PacketRate is the most datagrams per second of a source; 0 means unlimited. A source is an IPv4 address or an
	// IPv6 /64. Hundreds of players may share one address, so set it against floods only.
	PacketRate int
	// Burst is the most datagrams of a source at once; at least 1.
	Burst int
	// Sources is the number of places for rates, at least 1, rounded up to a power of two. A secret hash assigns
	// sources to places. Sources may share a place, which makes the limit stricter. No source can evict another.
	Sources int
	// Bans is the most prefixes that may be banned; at least 1. Only banned prefixes take memory.
	Bans int
	// Known is the most clients that the Gates know; at least 1. Each takes 16 to 32 bytes, allocated by New.
	Known int
	// Loops is the number of loops, at least 1.
	Loops int
}

// Listener is a listener for XDP: only datagrams to its address are judged.
type Listener struct {
	Addr  netip.AddrPort // a specific address: replace a wildcard by the host's addresses
	First FirstBytes
}

// Reason is the reason for a drop, or Passed.
type Reason uint8

// Reasons.
const (
	Passed        Reason = iota // not dropped
	Banned                      // the source is in a banned prefix
	FirstByte                   // no protocol of the listener has this first byte
	Rate                        // the source sends too many
	StrangerLimit               // the source is a stranger, and strangers send too many
	reasons
)

var reasonNames = [reasons]string{"passed", "banned", "first-byte", "rate", "stranger-limit"}

// String returns the reason's name as in logs and metrics.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Tally counts datagrams by Reason. A merged packet counts as its parts.
type Tally [reasons]uint64

// Counters are the totals of a Shield. They never decrease.
type Counters struct {
	Sockets    Tally // by the filters of sockets, behind the interfaces
	Interfaces Tally // by XDP
}

// Mode is the way in which XDP runs on an interface.
type Mode uint8

// Modes of XDP.
const (
	Native  Mode = iota + 1 // in the driver, before the kernel allocates a buffer for the packet
	Generic                 // in the kernel, for drivers without XDP
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Native:
		return "native"
	case Generic:
		return "generic"
	}
	return "none"
}

// FirstBytes is the set of possible first bytes of a listener's datagrams, at any time of a session. The zero value
// means that nothing is known: everything passes, empty datagrams too. A set with any byte rejects empty datagrams.
type FirstBytes struct {
	possible byteSet
	openings byteSet
}

// FirstBytesOf returns the set with the given bytes: byte b is bit b%64 of word b/64. Only datagrams outside of a
// session start with one of openings: they count as a stranger's, for any source.
func FirstBytesOf(possible, openings [4]uint64) FirstBytes {
	return FirstBytes{possible: possible, openings: openings}
}

// byteSet has byte b as bit b%64 of word b/64.
type byteSet [4]uint64

func (s *byteSet) has(b byte) bool { return s[b/64]>>(b%64)&1 == 1 }
func (s *byteSet) add(b byte)      { s[b/64] |= 1 << (b % 64) }

// Add adds the bytes from first to last, both included.
func (f *FirstBytes) Add(first, last byte) {
	for b := int(first); b <= int(last); b++ {
		f.possible.add(byte(b))
	}
}

// Has reports whether a datagram may start with b.
func (f *FirstBytes) Has(b byte) bool { return f.any() || f.possible.has(b) }

// Opens reports whether a datagram that starts with b counts as a stranger's.
func (f *FirstBytes) Opens(b byte) bool { return f.openings.has(b) }

// any reports whether every first byte is possible.
func (f *FirstBytes) any() bool { return f.possible == byteSet{} }

// table is the set as the programs read it: bit b for byte b, and bit noByte for an empty datagram. The openings
// follow.
type table struct{ possible, openings [8]uint64 }

// noByte stands for the first byte of an empty datagram.
const noByte = 256

func (f *FirstBytes) table() (t table) {
	copy(t.possible[:], f.possible[:])
	if f.any() {
		for i := range t.possible {
			t.possible[i] = ^uint64(0)
		}
	}
	copy(t.openings[:], f.openings[:])
	return t
}

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
