package codec

import "time"

// Spec holds the facts about a protocol that never change.
type Spec struct {
	// Name is the protocol's name in configuration, logs and metrics, for example "riptide-2.2".
	Name string
	// Modes are the delivery modes that the wire can express.
	Modes Modes
	// IDs says where a message carries its ID.
	IDs IDs
	// Channels is the number of ordering channels, numbered from 0; 0 means that Message.Channel is ignored.
	Channels int
	// Joins says that several messages may arrive as one. Only lengths inside them can separate them (RUDP).
	Joins bool
	// KicksNone says that a server ends no single session: its goodbye means that it stops (RUDP).
	KicksNone bool
	// Closed says that the vocabulary is closed: the protocol carries its own messages and no others (R-Type).
	Closed bool
	// ServerFirst says that a client may stay silent until it receives the game's first messages. A server must let such
	// a client join before it has answered (R-Type).
	ServerFirst bool
	// Proof says which event proves a client's address.
	Proof Proof
	// IdleTimeout is how long a client may stay silent before the Conn itself ends the session. Zero: clients are never
	// silent for long.
	IdleTimeout time.Duration
	// FirstBytes are the possible first bytes of a client's datagram, at any time of a session. No such datagram is
	// empty. An empty set means that the first bytes are unknown.
	FirstBytes ByteSet
	// Openings are the FirstBytes of datagrams that a client sends only before Connected. In a flood such a datagram
	// counts as a stranger's, even if it comes from the address of a session.
	Openings ByteSet
	// LoneOpenings are the bytes that open a session as the only byte of a datagram.
	LoneOpenings ByteSet
}

// IDs says where a message carries its ID.
type IDs uint8

// Places of a message's ID.
const (
	IDNowhere   IDs = iota // nowhere: the message is its payload
	IDFirstByte            // in the payload's first byte (RakNet's packet ID)
	IDBeside               // in Message.ID, 16 bits beside the payload (Riptide)
)

// Proof says which event proves a client's address: the client has echoed a secret that was sent to that address.
type Proof uint8

// Proofs of address.
const (
	NoProof        Proof = iota // none: a forger can send everything that a client sends
	ProvedAccept                // Accept made a Conn
	ProvedConnect               // Connected came
	ProvedClientID              // Connected came, and the client ID given to Admit cannot be guessed
	ProvedEcho                  // the Conn, an Echoer, reports the proof; some clients never give one
)

// ByteSet is a set of bytes. Byte b is bit b%64 of word b/64.
type ByteSet [4]uint64

// ByteSetOf returns the set of the given bytes.
func ByteSetOf(bytes ...byte) ByteSet {
	var s ByteSet
	for _, b := range bytes {
		s.Add(b, b)
	}
	return s
}

// Add adds the bytes from first to last, both included.
func (s *ByteSet) Add(first, last byte) {
	for b := int(first); b <= int(last); b++ {
		s[b/64] |= 1 << (b % 64)
	}
}

// Has reports whether b is in the set.
func (s *ByteSet) Has(b byte) bool { return s[b/64]>>(b%64)&1 == 1 }

// IsEmpty reports whether no byte is in the set.
func (s *ByteSet) IsEmpty() bool { return *s == ByteSet{} }

// Or returns the bytes that are in s or in other.
func (s ByteSet) Or(other ByteSet) ByteSet {
	for i := range s {
		s[i] |= other[i]
	}
	return s
}

// AndNot returns the bytes of s that are not in other.
func (s ByteSet) AndNot(other ByteSet) ByteSet {
	for i := range s {
		s[i] &^= other[i]
	}
	return s
}
