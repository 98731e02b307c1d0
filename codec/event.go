package codec

// EventKind says what happened on a connection.
type EventKind uint8

// Events of a Conn. Asked comes at most once, on the accepting side; Granted at most once, after DialAhead; Connected
// at most once and before any Received; Disconnected exactly once and last.
const (
	Asked        EventKind = iota // a client wants to join: Payload, Pad and Identity are its Hello; answer by Admit or Close
	Granted                       // the server of Identity grants the connection, and waits for Introduce (Granter)
	Connected                     // messages may flow; Client is the ID the server gave us, where the protocol has one
	Received                      // the Message is the peer's
	Delivered                     // the message of Receipt reached the peer's codec
	Lost                          // the message of Receipt did not, or will never be known to have
	Joined                        // another client, Client, joined the server (Riptide's news)
	Left                          // another client, Client, left the server
	Disconnected                  // it is over, for Reason; Payload and Pad are the peer's goodbye data
	eventCount
)

var eventNames = [eventCount]string{
	"asked", "granted", "connected", "received", "delivered", "lost", "joined", "left", "disconnected",
}

// String is the event's name as in logs and tests.
func (k EventKind) String() string {
	if k < eventCount {
		return eventNames[k]
	}
	return "unknown"
}

// Event is one thing that happened. Its payload is lent until the Conn's next input.
type Event struct {
	Kind    EventKind
	Message        // the whole of Received; Receipt of Delivered and Lost; Payload and Pad of Asked and Disconnected
	Client  uint16 // of Connected (dialling side), Joined and Left
	// Identity is the peer's RakNet GUID: the client's in Asked, the server's in Granted and in a Disconnected that
	// refuses. Zero where the peer has none.
	Identity uint64
	Reason   Reason // of Disconnected
	Version  uint8  // the server's protocol version, in a Disconnected for Incompatible; zero: unknown
}

// Reason is why a connection ended or was refused, across all protocols. Each codec maps its own wire's reasons to
// these; docs/bridging.md has the table.
type Reason uint8

// Reasons. Those up to Incompatible refuse a connection that was never made; the rest end one that was.
const (
	ReasonNone       Reason = iota
	NoConnection            // the server did not answer, or could not be reached
	AlreadyConnected        // the server already has a client of this address or identity
	ServerFull              // no free place
	Rejected                // the game refused, without saying more
	RejectedCustom          // the game refused, with data
	Banned                  // the address is banned
	InvalidPassword         // RakNet's password did not match
	TooSoon                 // this address connected a moment ago (RakNet's IP_RECENTLY_CONNECTED)
	Incompatible            // the protocol versions differ
	Closed                  // the peer, or we, left in the normal way
	TimedOut                // the peer fell silent
	Kicked                  // the server threw the client out, possibly with data
	ServerStopped           // the server is shutting down
	PoorConnection          // too much was lost to go on
	TransportError          // the path below failed
	Violation               // the peer broke a bound that no honest peer reaches
	Overflow                // more was queued for the peer than the bound allows
	reasonCount
)

// ReasonCount is how many reasons there are.
const ReasonCount = int(reasonCount)

var reasonNames = [reasonCount]string{
	"none", "no-connection", "already-connected", "server-full", "rejected", "rejected-custom", "banned",
	"invalid-password", "too-soon", "incompatible", "closed", "timed-out", "kicked", "server-stopped",
	"poor-connection", "transport-error", "violation", "overflow",
}

// String is the reason's name as in logs and metrics.
func (r Reason) String() string {
	if r < reasonCount {
		return reasonNames[r]
	}
	return "unknown"
}
