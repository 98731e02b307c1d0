// Package codec is the contract that each wire protocol of Tidegate fulfils. A codec turns datagrams into messages and
// back, for both ends of a connection. It contains no sockets, clocks, goroutines or locks. Bytes and time are
// arguments, so a socket loop and a simulator can both drive a codec.
//
// Start with Protocol, which recognizes new clients and makes connections. Continue with Conn, one side of one
// connection. Spec holds a protocol's constant facts. optional.go lists the interfaces that a codec may implement in
// addition. Two laws hold for every Conn:
//
// Order. After Accept, Receive or Advance, call Poll until it reports false; only then call one of the three again.
// After any input, call Transmit until it reports false before you wait for I/O. Several inputs may share one such
// round, so that messages coalesce into full datagrams.
//
// Memory is lent, never given. A datagram given to Accept or Receive belongs to the Conn until the next Poll round
// ends. A payload from Poll belongs to the caller until the next Receive, Advance or Close. Bytes given to Send, Dial,
// Close or Refuse belong to the codec until the call returns. A caller or codec that needs bytes longer copies them.
//
// Six rules complete the laws:
//
//   - The goodbye of some protocols is acknowledged (RakNet). Such a protocol first delivers the messages that it
//     accepted in a reliable mode, until its own time-out for closing. All other protocols say goodbye at once, and
//     waiting messages are Lost. Received may still come until Disconnected.
//   - Events of Send, Announce, Admit, Close and Transmit may wait for the next Poll.
//   - One more Transmit round follows Disconnected. Then the Conn is forgotten.
//   - A protocol without channels ignores Channel. A protocol with channels refuses an unknown channel with ErrMode.
//   - A codec leaves out data of a Hello or Goodbye if its wire has no room or no field for that data.
//   - Reliable without ReliableOrdered, or the reverse, is a complete set of modes. The bridge uses a stronger mode for
//     a missing one.
package codec

import (
	"errors"
	"net/netip"
	"time"
)

// MaxDatagram is the size in bytes of the largest datagram that any protocol reads or writes (RUDP's receive buffer).
const MaxDatagram = 4096

// Errors of the contract. Codecs wrap them, or return them as they are.
var (
	ErrMode       = errors.New("delivery mode not of this protocol")  // Send, Announce
	ErrTooLarge   = errors.New("message too large for this protocol") // Send
	ErrFull       = errors.New("send queue full")                     // Send: the queue has reached the bound of Options
	ErrClosed     = errors.New("connection closed")                   // Send after Close or Disconnected
	ErrMalformed  = errors.New("malformed datagram")                  // Accept, Receive: not the protocol's layout
	ErrRefused    = errors.New("connection attempt refused")          // Accept: answered statelessly, or not at all
	ErrUnexpected = errors.New("datagram not expected in this state") // Receive
	ErrDuplicate  = errors.New("duplicate or stale datagram")         // Receive
	ErrWindow     = errors.New("sequence number outside the window")  // Receive
	ErrLimit      = errors.New("bound on a peer's memory reached")    // Receive
	ErrSaved      = errors.New("unusable record of a connection")     // Restore
	ErrKiller     = errors.New("the server would end")                // Send: a message that its library does not survive
)

// ErrNoProof is an ErrRefused: a client did not return the proof of its address.
var ErrNoProof error = noProof{}

type noProof struct{}

// Error implements error.
func (noProof) Error() string { return "no proof of its address" }

// Is reports that the error is an ErrRefused, too.
func (noProof) Is(target error) bool { return target == ErrRefused }

// Protocol is one wire protocol with its options. It is immutable and safe for concurrent use.
type Protocol interface {
	// Spec returns the protocol's constant facts. All callers share the Spec and must not change it.
	Spec() *Spec
	// Sniff reports whether a datagram from an unknown address could open or precede a session of this protocol.
	// It never allocates.
	Sniff(datagram []byte) bool
	// Accept handles a datagram from an unknown address that Sniff has approved. It appends a stateless answer of at most
	// one datagram to reply. A non-nil Conn asks for a session. A protocol that can prove the peer's address makes a Conn
	// only after that proof. If the datagram asks for neither, the error wraps ErrMalformed or ErrRefused.
	Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (Conn, []byte, error)
	// Refuse appends the protocol's stateless refusal of a datagram for which Accept would make a Conn. It appends
	// nothing if the protocol has no such refusal. A proxy without room for another session uses it.
	Refuse(datagram, reply []byte, reason Reason) []byte
	// Dial opens a connection to a server at to.
	Dial(now time.Time, to netip.AddrPort, hello Hello) Conn
	// Restore makes the connection that Save wrote, in this process or another one. from is as in Hello. A session follows
	// the options of this Protocol from then on. A record is hostile input: an error, which wraps ErrSaved, says that it
	// is not readable or breaks a bound.
	Restore(now time.Time, from Addresser, saved []byte) (Conn, error)
}

// Conn is one side of one connection. It is not safe for concurrent use.
type Conn interface {
	// Receive takes one datagram from the peer's address. An error says why the codec dropped all or part of the
	// datagram. An error never closes the connection, since the sender may be forged. Closing is an event.
	Receive(now time.Time, datagram []byte) error
	// Advance does the work that is due. An early call is harmless.
	Advance(now time.Time)
	// Send queues a message, also before Connected. It copies the bytes that it keeps. Errors are ErrMode, ErrTooLarge,
	// ErrFull, ErrKiller and ErrClosed; they leave the connection unchanged.
	Send(now time.Time, m Message) error
	// Announce tells the peer that another client Joined or Left. The error is ErrMode if the protocol has no such
	// message.
	Announce(now time.Time, kind EventKind, client uint16) error
	// Admit answers Asked: the peer may join. The peer learns that it is the given client, if the protocol can tell it.
	Admit(now time.Time, client uint16)
	// Close says goodbye. Between Asked and Admit it refuses the client. Disconnected follows at once, or as soon as the
	// goodbye is acknowledged or given up. A second Close does nothing.
	Close(now time.Time, why Goodbye)
	// Poll returns the next event. It does not allocate on the steady path.
	Poll() (Event, bool)
	// Transmit appends one datagram to b, which has room for MaxDatagram bytes, or reports false.
	Transmit(now time.Time, b []byte) ([]byte, bool)
	// NextTimeout returns when Advance wants to be called next; zero means never. Advance(NextTimeout()) always makes
	// progress.
	NextTimeout() time.Time
	// Stats returns the connection's figures so far.
	Stats() Stats
	// Save appends the connection's whole state to b as one record, for Restore. It changes nothing. The caller has polled
	// all events and transmitted all datagrams before. Times are saved as durations from now.
	Save(now time.Time, b []byte) []byte
}

// Hello holds the data that a client sends when it joins.
type Hello struct {
	// Data is Riptide's connect data or RakNet's password. Pad works as in Message.
	Data []byte `cbor:"1,keyasint,omitempty"`
	Pad  uint8  `cbor:"2,keyasint,omitempty"`
	// Identity is the client's RakNet GUID, or zero if the client has none.
	Identity uint64 `cbor:"3,keyasint,omitempty" secret:"true"`
	// Version is the client's RakNet protocol version, or zero. Servers may behave differently to each.
	Version uint8 `cbor:"4,keyasint,omitempty"`
	// Tentative makes a Confirmer hold back the last step of its handshake until Confirm. Other connections ignore it.
	Tentative bool
	// Patient lets a Redialer ask a full server again, because a place may come free within a second.
	Patient bool
	// Held says that the caller keeps its client when the server is lost: R-Type then gives a silent one up soon.
	Held bool
	// From knows at which address the server sees the client; nil means that the address is unknown. RakNet makes
	// offloaded cookies for that address. Other protocols do not ask for it, because the answer may take time.
	From Addresser
}

// Addresser has an address, as a socket does.
type Addresser interface{ Addr() netip.AddrPort }

// Goodbye says why a connection ends, and holds the data that the game adds.
type Goodbye struct {
	Reason Reason
	// Data is the custom data of a refusal or a kick, or of a client's goodbye (ENet). Pad works as in Message.
	Data []byte
	Pad  uint8
	// Identity and Version belong to the server that refuses, as in Event. Zero means the codec's own.
	Version  uint8
	Identity uint64
	// Lost says that the far side has fallen silent. A codec may say nothing then: its peer notices by itself.
	Lost bool
	Deaf bool // no datagram of the peer reaches the Conn any more, so the goodbye must not wait for one
	// Text is a line for the player. It is sent if Data is empty and the protocol has a field for texts (Riptide).
	Text string
}

// Stats holds figures of one side of a connection. Counts only grow.
type Stats struct {
	RTT      time.Duration // smoothed round-trip time; zero until measured
	Sent     uint64        `cbor:"1,keyasint,omitempty"` // datagrams written
	Received uint64        `cbor:"2,keyasint,omitempty"` // datagrams read and accepted
	Resent   uint64        `cbor:"3,keyasint,omitempty"` // repeated transmissions of messages
	Lost     uint64        `cbor:"4,keyasint,omitempty"` // messages or datagrams known not to have arrived at first
	Dropped  uint64        `cbor:"5,keyasint,omitempty"` // datagrams or parts refused: malformed, duplicate or beyond
	Queued   int           // bytes of messages that wait to be sent or acknowledged
	// Held is the memory in bytes that the Conn keeps for its peer: messages with missing parts, messages that wait for
	// an earlier one, and data of the handshake. It is 0 again when all of that has been completed or given up.
	Held int
	MTU  int // of a path which has shown itself narrower than the handshake had; 0: none has
	// Kept is the memory in bytes of other state of the peer's that lasts as long as the connection: a game's world.
	Kept    int
	Lenient bool // the peer has shown that it blocks no address for many datagrams at once
}

// Count counts a datagram that was read: as received if err is nil, else as dropped. It returns err.
func (s *Stats) Count(err error) error {
	if err != nil {
		s.Dropped++
	} else {
		s.Received++
	}
	return err
}
