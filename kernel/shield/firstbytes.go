package shield

// FirstBytes is the set of bytes that a datagram may begin with, at any time of a session. The zero value is the set of
// a listener about which nothing is known: everything passes, empty datagrams too. A set with a byte in it lets
// no empty datagram pass.
type FirstBytes struct {
	words [4]uint64 // bit b%64 of word b/64 is byte b
}

// Add adds the bytes from first to last, which is included.
func (f *FirstBytes) Add(first, last byte) {
	for b := int(first); b <= int(last); b++ {
		f.words[b/64] |= 1 << (b % 64)
	}
}

// Has reports whether a datagram may begin with b.
func (f *FirstBytes) Has(b byte) bool { return f.any() || f.words[b/64]>>(b%64)&1 == 1 }

// any reports whether nothing is checked.
func (f *FirstBytes) any() bool { return f.words == [4]uint64{} }

// table is the set as the programs read it: bit b for byte b, and bit noByte for an empty datagram.
type table [8]uint64

// noByte is what the programs take for the first byte of an empty datagram.
const noByte = 256

func (f *FirstBytes) table() (t table) {
	if f.any() {
		for i := range t {
			t[i] = ^uint64(0)
		}
		return t
	}
	copy(t[:], f.words[:])
	return t
}
