// Package codec is the contract every wire protocol of Tidegate fulfils: a codec turns datagrams into messages and
// back, for both ends of a connection. It contains no sockets, clocks, goroutines or locks: bytes and time are
// arguments, so a codec can be driven by a socket loop and by a simulator alike.
//
// Start with Protocol, which recognises new clients and makes connections, and Conn, which is one side of one
// connection. A protocol's constant facts are in its Spec. Interfaces that a codec may implement besides are in
// optional.go. Two laws hold for every Conn:
//
// Order. After Accept, Receive or Advance, call Poll until it reports false before the next of them. After any input,
// call Transmit until it reports false before waiting for I/O; several inputs may share one such round, which is how
// messages coalesce into full datagrams.
//
// Memory is lent, never given. A datagram given to Accept or Receive is the Conn's until the Poll round after it
// ends. A payload from Poll is the caller's until the next Receive, Advance or Close. Bytes given to Send, Dial,
// Close or Refuse are the codec's until the call returns. A caller or codec that needs bytes longer copies them.
//
// Six rules complete the laws:
//
//   - A protocol whose goodbye is acknowledged (RakNet) first delivers what was accepted in a reliable mode, for as long as
//     its own time-out for closing allows. All others say goodbye at once, and what waits is Lost. Until Disconnected,
//     Received may still come.
//   - Events of Send, Announce, Admit, Close and Transmit may wait for the next Poll.
//   - One more Transmit round follows Disconnected. Then the Conn is forgotten.
//   - A protocol without channels ignores Channel. One with channels refuses a channel that it does not have: ErrMode.
//   - A codec leaves out data of a Hello or Goodbye that its wire has no room or no field for.
//   - Reliable without ReliableOrdered, or the reverse, is a complete set of modes. The bridge uses a stronger mode for a
//     missing one.
package codec

import (
	"net/netip"
	"time"
)

// MaxDatagram is the size in bytes of the largest datagram any protocol here reads or writes (RUDP's receive buffer).
const MaxDatagram = 4096

// Protocol is one wire protocol with its options. It is immutable and safe for concurrent use.
type Protocol interface {
	// Spec returns the protocol's constant facts. All callers share it; they only read it.
	Spec() *Spec
	// Sniff reports whether a datagram from an unknown address could open or precede a session of this protocol.
	// It never allocates.
	Sniff(datagram []byte) bool
	// Accept handles a sniffed datagram from an unknown address. A stateless answer, at most one datagram, is
	// appended to reply. A non-nil Conn asks for a session; protocols that can prove the peer's address make one
	// only after that proof. A datagram that asks for neither is an error that wraps ErrMalformed or ErrRefused.
	Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (Conn, []byte, error)
	// Refuse appends the protocol's stateless refusal of a datagram that Accept would make a Conn of, or nothing
	// where it has none. It serves a proxy that has no room for another session.
	Refuse(datagram, reply []byte, reason Reason) []byte
	// Dial opens a connection to a server at to.
	Dial(now time.Time, to netip.AddrPort, hello Hello) Conn
}

// Conn is one side of one connection. It is not safe for concurrent use.
type Conn interface {
	// Receive takes one datagram from the peer's address. An error says why the datagram was dropped, in whole or in
	// part; it never closes the connection, since the sender may be forged. Closing is an event.
	Receive(now time.Time, datagram []byte) error
	// Advance runs whatever is due. Early calls are harmless.
	Advance(now time.Time)
	// Send queues a message, also before Connected; it copies what it keeps. Errors are ErrMode, ErrTooLarge, ErrFull
	// and ErrClosed, and leave the connection as it was.
	Send(now time.Time, m Message) error
	// Announce tells the peer that another client Joined or Left. ErrMode where the protocol has no such news.
	Announce(now time.Time, kind EventKind, client uint16) error
	// Admit answers Asked: the peer may join, and is told that it is the given client, where the protocol says so.
	Admit(now time.Time, client uint16)
	// Close says goodbye, or refuses where it comes between Asked and Admit. Disconnected follows, at once or when
	// the goodbye has been acknowledged or given up. A second Close does nothing.
	Close(now time.Time, why Goodbye)
	// Poll returns the next event. No allocation on the steady path.
	Poll() (Event, bool)
	// Transmit appends one datagram to b, which has room for MaxDatagram bytes, or reports false.
	Transmit(now time.Time, b []byte) ([]byte, bool)
	// NextTimeout is when Advance wants to be called next; zero means never. Advance(NextTimeout()) always moves on.
	NextTimeout() time.Time
	// Stats are the connection's figures so far.
	Stats() Stats
}

// Hello is what a client says of itself as it joins.
type Hello struct {
	// Data is Riptide's connect data or RakNet's password. Pad as in Message.
	Data []byte
	Pad  uint8
	// Identity is the client's RakNet GUID; zero where it has none.
	Identity uint64
	// Tentative makes a Confirmer hold back the last step of its handshake until Confirm. Other connections ignore it.
	Tentative bool
	// From is whatever knows where the server sees the client; nil: nobody does. RakNet's offloaded cookies are made
	// for that address, and others do not ask for it: to find out may take time.
	From Addresser
}

// Addresser has an address, as a socket does.
type Addresser interface{ Addr() netip.AddrPort }

// Goodbye is why a connection ends and what the game adds to it.
type Goodbye struct {
	Reason Reason
	// Data is the custom data of a refusal or a kick. Pad as in Message.
	Data []byte
	Pad  uint8
	// Identity and Version are those of the server that refuses, as in Event; zero: the codec's own.
	Version  uint8
	Identity uint64
	// Text is a line for the player, sent if Data is empty and the protocol has a place for texts (Riptide).
	Text string
}

// Stats are figures of one side of a connection. Counts only grow.
type Stats struct {
	RTT      time.Duration // smoothed round trip; zero until measured
	Sent     uint64        // datagrams written
	Received uint64        // datagrams read and accepted
	Resent   uint64        // transmissions of messages beyond their first
	Lost     uint64        // messages or datagrams the codec knows did not arrive the first time
	Dropped  uint64        // datagrams, or parts, refused: malformed, duplicate, out of window
	Queued   int           // bytes of messages waiting to be sent or acknowledged
}

// Count counts a datagram that was read, and refused where err is not nil. It returns err.
func (s *Stats) Count(err error) error {
	if err != nil {
		s.Dropped++
	} else {
		s.Received++
	}
	return err
}

// Earliest returns the earlier of two deadlines. Zero means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
