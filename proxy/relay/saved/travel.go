package saved

import (
	"net/netip"
	"time"

	"tidegate/internal/record"
)

// Travel is a travelling session.
type Travel struct {
	record.Head
	Listener string         `cbor:"3,keyasint"` // its name: machines have different addresses
	Route    Route          `cbor:"4,keyasint"`
	Session  []byte         `cbor:"5,keyasint"`           // a Session
	Source   netip.AddrPort `cbor:"6,keyasint,omitempty"` // the client's address as the game server sees it
	At       int64          `cbor:"7,keyasint"`           // time of TakeOutSession in Unix nanoseconds
	Client   netip.AddrPort `cbor:"8,keyasint"`
	// Sum is a hash of the whole record with zeros in its place. Earlier releases write none.
	Sum []byte `cbor:"9,keyasint,omitempty"`
}

// Arrival is the record of a session that waits for its client.
type Arrival struct {
	Session []byte        `cbor:"1,keyasint"` // a Travel
	Age     time.Duration `cbor:"2,keyasint,omitempty"`
	Read    record.Moment `cbor:"3,keyasint,omitempty"`
}
