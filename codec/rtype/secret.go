package rtype

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

// secretNames are names of components that no client has.
var secretNames = [2][]byte{[]byte("Tidegate.1"), []byte("Tidegate.2")}

// restartQuiet is how long a proved client must be silent before its hello counts, because the hello may be forged.
const restartQuiet = 10 * time.Second

// secret is a value that a server sends only to its client's address. A client that echoes it has proved its address:
//
//   - Clients of wide entities receive masked ones. They know entities by nothing else, and their updates name them.
//   - Clients of the last game receive two components that no client has. They answer that they ignore these.
//
// docs/protocols/rtype.md#proof
type secret struct {
	mask    uint32
	indexes [len(secretNames)]uint16 // of the two components; 0: none
	heard   [len(secretNames)]bool
	proved  bool
	at      time.Time // time of the last proof
}

// newSecret returns the secret of a new client at an address. Without a seed there is none.
func (o *Options) newSecret(now time.Time, from netip.AddrPort) (s secret) {
	if o.Seed == [32]byte{} {
		return s
	}
	b := append(make([]byte, 0, 96), o.Seed[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixNano()))
	b, _ = from.AppendBinary(b)
	sum := sha256.Sum256(b)
	s.mask = be.Uint32(sum[:])
	for i := range s.indexes {
		s.indexes[i] = be.Uint16(sum[4+2*i:]) | 0x100 // larger than any component
	}
	if s.indexes[1] == s.indexes[0] {
		s.indexes[1] ^= 1
	}
	return s
}

// awaits reports whether the client has yet to ignore component i of the secret.
func (s *secret) awaits(i int) bool { return s.indexes[i] != 0 && !s.heard[i] }

// take handles a component that the client ignores. It reports whether the component is one of the secret's.
func (s *secret) take(component uint16) bool {
	for i, index := range s.indexes {
		if index == component && index != 0 {
			s.heard[i] = true
			s.proved = s.proved || s.heard[0] && s.heard[1]
			return true
		}
	}
	return false
}

// prove records that the client has named an entity as only it was sent.
func (s *secret) prove(now time.Time) { s.proved, s.at = true, now }

// isFresh reports whether the client has proved its address recently.
func (s *secret) isFresh(now time.Time) bool { return !s.at.IsZero() && now.Sub(s.at) < restartQuiet }
