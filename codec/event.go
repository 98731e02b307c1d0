package codec

import "time"

// EventKind says which kind of event happened on a connection.
type EventKind uint8

// Events of a Conn. Asked comes at most once, on the accepting side. Granted comes at most once, after DialAhead.
// Connected comes at most once, before any Received. Disconnected comes exactly once, as the last event.
const (
	Asked        EventKind = iota // a client wants to join with the Hello in Payload, Pad, Identity: Admit or Close it
	Granted                       // the server with this Identity grants the connection and waits for Introduce (Granter)
	Connected                     // messages may flow; Client is the ID that the server gave us, if the protocol has one
	Received                      // the Message came from the peer
	Delivered                     // the message with this Receipt reached the peer's codec
	Lost                          // the message with this Receipt did not arrive, or its fate will stay unknown
	Joined                        // another client, Client, joined the server (Riptide)
	Left                          // another client, Client, left the server (Riptide)
	Disconnected                  // the connection ended for Reason; Payload and Pad are the peer's goodbye data
	eventCount
)

var eventNames = [eventCount]string{
	"asked", "granted", "connected", "received", "delivered", "lost", "joined", "left", "disconnected",
}

// String returns the event's name as in logs and tests.
func (k EventKind) String() string {
	if k < eventCount {
		return eventNames[k]
	}
	return "unknown"
}

// Event is one event of a Conn. Its payload is lent until the Conn's next input.
type Event struct {
	Kind    EventKind
	Message        // whole in Received; Receipt in Delivered and Lost; Payload and Pad in Asked and Disconnected
	Client  uint16 // in Connected (dialing side), Joined and Left
	// Identity is the peer's RakNet GUID: the client's in Asked, the server's in Granted and in a Disconnected that
	// refuses. It is zero if the peer has none.
	Identity uint64
	Reason   Reason // in Disconnected
	Version  uint8  // the server's protocol version, in a Disconnected for Incompatible; zero: unknown
}

// Reason says why a connection ended or was refused, across all protocols. Each codec maps its wire's own reasons to
// these. docs/bridging.md has the table.
type Reason uint8

// Reasons. Reasons up to Incompatible refuse a new connection. The others end an established one.
const (
	ReasonNone       Reason = iota
	NoConnection            // the server did not answer, or could not be reached
	AlreadyConnected        // the server already has a client with this address or identity
	ServerFull              // the server has no free place
	Rejected                // the game refused without data
	RejectedCustom          // the game refused with data
	Banned                  // the address is banned
	InvalidPassword         // RakNet's password did not match
	TooSoon                 // this address connected a moment ago (RakNet's IP_RECENTLY_CONNECTED)
	Incompatible            // the protocol versions differ
	Closed                  // the peer or we left in the normal way
	TimedOut                // the peer fell silent
	Kicked                  // the server removed the client, possibly with data
	ServerStopped           // the server is shutting down
	PoorConnection          // too many datagrams were lost
	TransportError          // the path below failed
	Violation               // the peer broke a bound that no honest peer reaches
	Overflow                // the queue to the peer exceeded its bound, or the peer's message did
	reasonCount
)

// ReasonCount is the number of reasons.
const ReasonCount = int(reasonCount)

var reasonNames = [reasonCount]string{
	"none", "no-connection", "already-connected", "server-full", "rejected", "rejected-custom", "banned",
	"invalid-password", "too-soon", "incompatible", "closed", "timed-out", "kicked", "server-stopped",
	"poor-connection", "transport-error", "violation", "overflow",
}

// String returns the reason's name as in logs and metrics.
func (r Reason) String() string {
	if r < reasonCount {
		return reasonNames[r]
	}
	return "unknown"
}

// Earliest returns the earlier of two deadlines. Zero means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// MostLate is how late a busy machine may do a connection's work. Work that is later shows that the process stood
// still, or that the session was in no process. The peer was not heard meanwhile, so its silence is no evidence.
const MostLate = 200 * time.Millisecond

// IsLate reports whether work that was due at a time is later than MostLate. Zero means that none was due.
func IsLate(now, due time.Time) bool { return !due.IsZero() && now.Sub(due) > MostLate }
