package netio

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"tidegate/internal/record"
)

// The state of a Poller's sockets is a sequence of parts. Each is a record after its length. A part has a bounded
// number of sockets. Sockets are known by the numbers of their descriptors in the exporting process.

// errState says that the state of an Export cannot be imported.
var errState = errors.New("unreadable state of sockets")

const (
	partKind    = "sockets"
	partVersion = 1
	partSize    = 4096 // sockets
)

var _ = record.Register[savedPart](partVersion, partKind)

// savedPart is a part of the state. The field numbers are never used again.
type savedPart struct {
	record.Head
	Numbers []int         `cbor:"3,keyasint,omitempty"` // of the next descriptors
	Dialed  []savedDialed `cbor:"4,keyasint,omitempty"`
	Shared  []savedShared `cbor:"5,keyasint,omitempty"`
	Members []savedMember `cbor:"6,keyasint,omitempty"` // of shared sockets in this part and in earlier ones
	Streams []savedStream `cbor:"7,keyasint,omitempty"`
	Drops   []savedDrops  `cbor:"8,keyasint,omitempty"`
}

// savedDialed are connected UDP sockets with the same options. The kernel knows their peers.
type savedDialed struct {
	Reusable     bool  `cbor:"1,keyasint,omitempty"`
	DontFragment bool  `cbor:"2,keyasint,omitempty"`
	Buffer       int   `cbor:"3,keyasint,omitempty"`
	Numbers      []int `cbor:"4,keyasint,omitempty"`
}

// savedShared is a sharedSocket.
type savedShared struct {
	Number       int        `cbor:"1,keyasint"`
	IPv6         bool       `cbor:"2,keyasint,omitempty"`
	DontFragment bool       `cbor:"3,keyasint,omitempty"`
	Local        netip.Addr `cbor:"4,keyasint"`
	Buffer       int        `cbor:"5,keyasint,omitempty"`
	OwnAddresses bool       `cbor:"6,keyasint,omitempty"`
}

// savedMember is a virtualSocket.
type savedMember struct {
	Number int            `cbor:"1,keyasint"` // of its shared socket
	Peer   netip.AddrPort `cbor:"2,keyasint"`
	At     netip.Addr     `cbor:"3,keyasint"` // zero: no address of its own
}

// savedStream is a TCP connection.
type savedStream struct {
	Number     int            `cbor:"1,keyasint"`
	Addr       netip.AddrPort `cbor:"2,keyasint"`
	Peer       netip.AddrPort `cbor:"3,keyasint"`
	Listener   netip.AddrPort `cbor:"4,keyasint"` // zero: dialed
	Prefix     Prefix         `cbor:"5,keyasint,omitempty"`
	MaxFrame   int            `cbor:"6,keyasint,omitempty"`
	Limit      int            `cbor:"7,keyasint,omitempty"`
	Rest       []byte         `cbor:"8,keyasint,omitempty"`
	Backlog    []byte         `cbor:"9,keyasint,omitempty"`
	Connecting bool           `cbor:"10,keyasint,omitempty"`
	Wrote      bool           `cbor:"11,keyasint,omitempty"`
	Silent     bool           `cbor:"12,keyasint,omitempty"` // without a first frame
	Lingers    bool           `cbor:"13,keyasint,omitempty"` // closed, with data on its way
	Ended      bool           `cbor:"14,keyasint,omitempty"` // the handler does not know it yet
}

// savedDrops is the kernel's counter of drops at the last query.
type savedDrops struct {
	Number int    `cbor:"1,keyasint"`
	Drops  uint32 `cbor:"2,keyasint,omitempty"`
}

// size returns the number of sockets in the part.
func (s *savedPart) size() int { return len(s.Numbers) + len(s.Members) }

// appendTo appends the part to the state.
func (s *savedPart) appendTo(state []byte) []byte {
	s.Head = record.Head{Kind: partKind, Version: partVersion}
	b := record.Append(nil, s)
	return append(binary.AppendUvarint(state, uint64(len(b))), b...)
}

// readPart reads the first part of the state, and returns the parts after it.
func readPart(state []byte) (part *savedPart, rest []byte, err error) {
	n, head := binary.Uvarint(state)
	if head <= 0 || n > uint64(len(state)-head) {
		return nil, nil, errState
	}
	b, rest := state[head:head+int(n)], state[head+int(n):]
	part = new(savedPart)
	return part, rest, record.Open(b, partKind, partVersion, part)
}

// Kinds of sockets in a name.
const (
	numbered = iota // then the number
	virtual         // then the number and the key
	ended           // a stream whose descriptor is closed: then its address and its peer's
)
