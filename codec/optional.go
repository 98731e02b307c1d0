package codec

import (
	"net/netip"
	"time"
	"unsafe"
)

// The interfaces in this file are optional. A codec implements one if its wire offers the feature, and states so at
// compile time: var _ codec.Pinger = (*Protocol)(nil). The proxy asks for them in this order:
//
//  1. PerLoop, once per loop and Protocol, before any other call.
//  2. Granter, when a Relay gets its settings. A Granter's Accept returns Deferrers, and DialAhead replaces Dial.
//  3. Pinger and Opaque, at any time; they need no connection.
//  4. Identity, after Accept made a Conn and before its first Poll.
//  5. Deferrer and Introducer, while two Granters open a session. Confirmer, after Dial with Hello.Tentative.
//  6. Echoer, after each input of a Conn whose protocol's Proof is ProvedEcho.
//  7. LossTolerant and WorldResetter, between inputs of an established Conn.
//  8. Throttler and Reflector, before each Transmit round of an established Conn.
//  9. Redialer, after each input of a dialed Conn that is not connected yet.
//  10. Leaver, when a client comes back from another port of its host.
//  11. Relayer, for both sides, after each input of either.
//  12. Holder, right before Close.
//  13. Succeeder, when a client's Conn has ended.
//  14. Paced, right before Admit.

// PerLoop is a Protocol whose connections can share memory if a single loop has them all.
type PerLoop interface {
	Protocol
	// ForLoop returns the same protocol for one loop. The returned Protocol and its Conns are not safe for concurrent use
	// with each other.
	ForLoop() Protocol
}

// Pinger is a Protocol whose servers answer a ping without a connection. Server lists show the answer, a text.
type Pinger interface {
	Protocol
	// IsPing reports whether a datagram only asks a server for its text.
	IsPing(datagram []byte) bool
	// AppendPong appends the answer to a client's ping. pong is a server's answer to another ping; text replaces its
	// text. If ping or pong is malformed, AppendPong appends nothing.
	AppendPong(b, ping, pong, text []byte) []byte
	// AppendPing appends a ping to a server. The answer has the same token.
	AppendPing(b []byte, token uint64) []byte
	// ParsePong reads an answer. The text aliases the datagram. Errors wrap ErrMalformed.
	ParsePong(datagram []byte) (token uint64, text []byte, err error)
	// JoinPongs appends one text for several servers, whose texts are given, at least one. The result is the first text.
	// Its figures are sums, as far as the protocol knows them, and Listing changes it further. b must not alias a text.
	JoinPongs(b []byte, texts [][]byte, as Listing) []byte
}

// Listing holds a proxy's changes to its servers' texts.
type Listing struct {
	Name string // empty: the server's own name
	Port uint16 // port for the players
}

// Kinds of ErrUnexpected that have a remedy.
var (
	// ErrCompressed: the game has compressed a datagram, in a way that the protocol leaves to the game.
	ErrCompressed error = unexpected(`the game compresses: use the range coder and enet.compression = "auto", or relay`)
	// ErrNoNames: a server sends its game before the names without which no player understands it.
	ErrNoNames error = unexpected("the server has not sent its names: does it speak the upstream's protocol?")
)

type unexpected string

// Error implements error.
func (u unexpected) Error() string { return string(u) }

// Is reports that the error is an ErrUnexpected, too.
func (unexpected) Is(target error) bool { return target == ErrUnexpected }

// Opaque is a Protocol whose clients can compress their datagrams, so that it does not understand them.
type Opaque interface {
	Protocol
	// SniffOpaque reports whether a datagram from an unknown address could be the first one of such a client.
	SniffOpaque(datagram []byte) bool
}

// Identity is a Conn whose client sends its identity when it opens the connection, before Asked. The proxy may know
// the same client from another address.
type Identity interface {
	Conn
	// Identity returns the client's RakNet GUID, and Version its protocol version; zero if unknown.
	Identity() uint64
	Version() uint8
}

// LossTolerant is a Conn that may close because of losses.
type LossTolerant interface {
	Conn
	// TolerateLoss keeps the connection open despite losses until t, because an overloaded proxy or a change of the
	// client's path caused them.
	TolerateLoss(until time.Time)
}

// Granter is a Protocol whose server grants a connection before it receives the Data of the client's Hello. RakNet's
// server grants with OPEN_CONNECTION_REPLY_2. Stock clients ignore most refusals after the grant. A proxy between two
// Granters can therefore ask its server first: it defers the client, dials ahead, and passes on the server's answer.
//
// Each Conn that Accept returns is a Deferrer.
type Granter interface {
	Protocol
	// DialAhead is Dial with only the Identity of hello. The connection stops at Granted until Introduce.
	DialAhead(now time.Time, to netip.AddrPort, hello Hello) Introducer
}

// Deferrer is the accepting side of a Granter's connection. It knows the client's Identity from the start.
type Deferrer interface {
	Identity
	// Defer makes the client wait for Grant. It comes right after Accept, or not at all. Before Grant, Close refuses the
	// client as a server does before its grant, with the Goodbye's Identity and Version.
	Defer()
	// Grant lets a deferred client continue, with the given server's Identity; zero is the codec's own.
	Grant(now time.Time, server uint64)
}

// Introducer is the dialing side of a Granter's connection. DialAhead makes it.
type Introducer interface {
	Conn
	// Introduce gives the Data of the client's Hello, before or after Granted. Only the first call counts.
	Introduce(now time.Time, hello Hello)
}

// Echoer is a Conn whose client can prove its address at any time: the client echoes a secret sent to that address.
type Echoer interface {
	Conn
	// Proved reports whether the client has proved its address.
	Proved() bool
}

// Relayer is a Conn that tells its peer how far away the far side's peer is. The peer decides by that figure.
type Relayer interface {
	Conn
	// FarRTT says how long the round trip between the proxy and the far side's peer takes; zero: unknown. It reports
	// whether that may have moved a deadline.
	FarRTT(d time.Duration) (changed bool)
	// ServerRTT returns how long a server takes to answer at most, as a rule. It answers in the ticks of its game.
	ServerRTT() time.Duration
}

// Paced is a Conn of a protocol whose server sets the pace of both ends, in packets a second.
type Paced interface {
	Conn
	// Pace returns the pace, or 0 while it is unknown.
	Pace() uint8
	// SetPace replaces the accepting side's own pace, unless it is 0. It comes before Admit.
	SetPace(pace uint8)
}

// WorldResetter is a Conn that records how much its client knows of a server's world.
type WorldResetter interface {
	Conn
	// ResetWorld says that another server has the session from now on, or the same server after a restart. The client
	// knows nothing of its world yet.
	ResetWorld(now time.Time)
}

// Redialer is a dialing Conn that can start again from another address. Some servers keep half of a connection if
// their answer is lost, and never answer that address again. Others answer no address again that they have refused.
type Redialer interface {
	Conn
	// Stranded returns why the server seems not to answer the present address.
	Stranded() Stranding
	// Redial restarts the handshake. From now on the codec's datagrams leave from another address. from knows that
	// address, as in Hello.
	Redial(now time.Time, from Addresser)
}

// Holder is a Conn that can free the memory of Stats.Held and Stats.Kept at once.
type Holder interface {
	Conn
	// Release gives up all memory that the Conn holds for its peer, and takes no more to hold. Messages of the peer are
	// lost, so Close follows.
	Release()
}

// Throttler is a Conn that can slow its peer down while the proxy's other side takes less than the peer sends.
type Throttler interface {
	Conn
	// Throttle sets the pressure on the peer from now on.
	Throttle(now time.Time, p Pressure)
	// Fill returns how full the queue of messages to the peer is, from 0 to 1.
	Fill() float64
	// Waiting returns the bytes of the peer's messages that wait for an earlier one. When that comes, all of them are
	// received at once.
	Waiting() int
}

// Pressure is how strongly a peer is slowed down.
type Pressure uint8

// Pressures.
const (
	NoPressure Pressure = iota
	// Hesitate accepts messages and holds their acknowledgements back, so that a peer with a window waits.
	Hesitate
	// Refuse accepts no messages. The peer sends the reliable ones again.
	Refuse
)

// Reflector is a Conn whose peer can decide by itself how long it waits for a silent far side, as it would without a
// proxy. Only the peer knows how long that is.
type Reflector interface {
	Conn
	// IsSilent reports whether the peer has been silent for so long that the far side should notice.
	IsSilent(now time.Time) bool
	// Reflects reports whether the Conn can show its own peer no life.
	Reflects() bool
	// Reflect says whether the far side's peer is silent. While it is, this Conn shows its own peer no life. isReflected
	// says that the far side learns of this peer's silence in the same way. So this Conn may wait for its peer as long as
	// any. Reflect reports whether the Conn may send again.
	Reflect(isSilent, isReflected bool) (released bool)
}

// Succeeder is a Conn whose client can start again at the same address, without a goodbye.
type Succeeder interface {
	Conn
	// Successor returns the new client's Conn, once the old one has ended. It reports Asked and Connected at once, since
	// the client has proved its address. It is nil if there is no such client.
	Successor() Conn
}

// Stranding is the reason why a handshake makes no progress.
type Stranding uint8

// Reasons why a handshake makes no progress.
const (
	NotStranded    Stranding = iota
	Unanswered               // the server does not answer: another address may help
	TurnedAway               // the server was full a moment ago: it may soon have a place
	KnownByEarlier           // the server knows the client by the address before a Redial: only that address helps
)

// Gatekeeper is a Protocol whose servers may block an address for a datagram that opens a connection wrongly. In mode
// relay datagrams pass unchanged, and all clients have the address of the proxy. So a Gatekeeper judges them until the
// server has let the client in: until then a sender may be forged.
type Gatekeeper interface {
	Protocol
	// PassUp returns why a client's datagram must not reach a server while the gate is closed, or nil. The error wraps
	// ErrMalformed, ErrUnexpected or ErrRefused.
	PassUp(now time.Time, gate *Gate, server netip.AddrPort, datagram []byte) error
	// PassDown notes a server's datagram.
	PassDown(now time.Time, gate *Gate, server netip.AddrPort, datagram []byte)
}

// Gate is what a Gatekeeper remembers of one client and server. It begins as 0.
type Gate uint64

// GateOpen is the Gate of a client that the server has let in. All datagrams pass.
const GateOpen Gate = 1 << 63

// Confirmer is a dialing Conn of a protocol whose servers accept a client before they count it as joined.
//
// Dialed with Hello.Tentative, the Conn reports Connected when the server has accepted it. It holds back the handshake
// step that makes it join. Until Confirm the server's Conn does not report Connected. Meanwhile the Conn receives the
// server's messages, and its own messages wait. A server gives up an unconfirmed client within seconds.
type Confirmer interface {
	Conn
	// Confirm joins the server. It has no effect on a connection that is not tentative or has ended.
	Confirm(now time.Time)
}

// Leaver is a Conn that does not believe its peer's goodbye at once, because the goodbye may be forged.
type Leaver interface {
	Conn
	// Believe ends the connection if its peer has said goodbye, and reports whether it did. The caller has other evidence
	// that the peer has left.
	Believe(now time.Time) bool
	// Doubt asks a peer whether it is still there, as after a goodbye, and ends the connection if it does not answer. It
	// reports whether the answer is still open.
	Doubt(now time.Time) bool
}

// Fetcher is a Conn that fetches its memory into the processor's cache. So a Relay waits for the memory of many Conns
// at once, and not at each access of each Conn.
type Fetcher interface {
	// Fetch reads what a datagram needs. Each step, below FetchSteps, needs the one before.
	Fetch(step int)
}

// FetchSteps is the number of a Fetcher's steps.
const FetchSteps = 3

// Touch reads a byte of each cache line of a value, if there is one. The result only keeps the compiler from leaving
// the reads out.
//
//go:noinline
func Touch[T any](v *T) (sum byte) {
	for at := uintptr(0); v != nil && at < unsafe.Sizeof(*v); at += 64 {
		sum += *(*byte)(unsafe.Add(unsafe.Pointer(v), at))
	}
	return sum
}
