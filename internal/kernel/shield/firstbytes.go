package shield

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
