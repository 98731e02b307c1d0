package codec

import (
	"net/netip"
	"time"
)

// The interfaces of this file are optional. A codec implements one if its wire has what the interface offers, and
// states so at compile time: var _ codec.Pinger = (*Protocol)(nil). The proxy asks for them in this order:
//
//  1. PerLoop, once per loop and Protocol, before anything else is called.
//  2. Granter, when a Relay's settings are made. It says whether Accept returns Deferrers and DialAhead is used.
//  3. Pinger, at any time; it needs no connection.
//  4. Identity, after Accept made a Conn and before its first Poll.
//  5. Deferrer and Introducer, while a session of two Granters is under way. Confirmer, after Dial with Hello.Tentative.
//  6. Echoer, after each input of a Conn whose protocol's Proof is ProvedEcho.
//  7. LossTolerant and WorldResetter, between inputs of an established Conn.
//  8. Throttler, before each Transmit round of an established Conn.
//  9. Redialer, after each input of a Conn that was dialed and is not connected.

// PerLoop is a Protocol whose connections share memory if one loop has them all.
type PerLoop interface {
	Protocol
	// ForLoop returns the same protocol for one loop. Neither it nor its Conns are safe for concurrent use with each
	// other.
	ForLoop() Protocol
}

// Pinger is a Protocol whose servers answer a question without a connection. Server lists show the answer.
type Pinger interface {
	Protocol
	// IsPing reports whether a datagram asks a server for its text, and for nothing else.
	IsPing(datagram []byte) bool
	// AppendPong appends the answer to a client's ping. It is the answer of a server that answers another ping by pong,
	// with text in place of the server's text. If ping or pong is malformed, it appends nothing.
	AppendPong(b, ping, pong, text []byte) []byte
	// AppendPing appends a question to a server. The answer has the same token.
	AppendPing(b []byte, token uint64) []byte
	// ParsePong reads an answer. The text aliases the datagram. Errors wrap ErrMalformed.
	ParsePong(datagram []byte) (token uint64, text []byte, err error)
	// JoinPongs appends one text for all servers whose texts are given, at least one. It is the first text, with
	// figures summed as far as the protocol knows them, and changed as the Listing says. b aliases none of the texts.
	JoinPongs(b []byte, texts [][]byte, as Listing) []byte
}

// Listing is what a proxy changes in its servers' texts.
type Listing struct {
	Name string // empty: the servers' own
	Port uint16 // where players reach them
}

// Identity is a Conn whose client names itself when it opens the connection, before Asked. The proxy may know the
// same client from another address.
type Identity interface {
	Conn
	// Identity returns the client's RakNet GUID.
	Identity() uint64
}

// LossTolerant is a Conn that gives up a peer because of losses.
type LossTolerant interface {
	Conn
	// TolerateLoss keeps the connection open despite losses until t, because the overloaded proxy caused them.
	TolerateLoss(until time.Time)
}

// Granter is a Protocol whose server grants a connection before it hears the Data of the client's Hello, as RakNet's
// server does by OPEN_CONNECTION_REPLY_2. Stock clients ignore most refusals after the grant. A proxy between two
// Granters can ask its server before it grants: it defers the client, dials ahead, and passes on the server's answer.
//
// Each Conn that Accept returns is a Deferrer.
type Granter interface {
	Protocol
	// DialAhead is Dial with the Identity of hello alone. The connection stops at Granted until Introduce.
	DialAhead(now time.Time, to netip.AddrPort, hello Hello) Introducer
}

// Deferrer is the accepting side of a Granter's connection. It knows the client's Identity from the start.
type Deferrer interface {
	Identity
	// Defer makes the client wait for Grant. It comes right after Accept, or not at all. Until Grant, Close refuses
	// the client as a server does that has not granted, in the name of the Goodbye's Identity and Version.
	Defer()
	// Grant lets a deferred client go on, in the name of the server with the given Identity; zero is the codec's own.
	Grant(now time.Time, server uint64)
}

// Introducer is the dialling side of a Granter's connection, made by DialAhead.
type Introducer interface {
	Conn
	// Introduce gives the Data of the client's Hello, before or after Granted. Only the first call counts.
	Introduce(now time.Time, hello Hello)
}

// Echoer is a Conn whose client can prove its address at any time, by saying back what only that address was told.
type Echoer interface {
	Conn
	// Proved reports whether the client has proved its address.
	Proved() bool
}

// WorldResetter is a Conn that knows what its client knows of a server's world.
type WorldResetter interface {
	Conn
	// ResetWorld says that another server, or the same one started again, has the session now: its world is another.
	ResetWorld(now time.Time)
}

// Redialer is a dialling Conn that can ask its server again from another address. Some servers keep half of a connection
// if their answer is lost, and never answer that address again.
type Redialer interface {
	Conn
	// Stranded returns why the server seems not to answer the present address.
	Stranded() Stranding
	// Redial restarts the handshake. From now on datagrams leave from another address, which from has as in Hello.
	Redial(now time.Time, from Addresser)
}

// Throttler is a Conn that can slow its peer down while a proxy's other side takes less than the peer sends.
type Throttler interface {
	Conn
	// Throttle sets the pressure on the peer from now on.
	Throttle(now time.Time, p Pressure)
	// Fill returns how full the queue of messages to the peer is, from 0 to 1.
	Fill() float64
}

// Pressure is how strongly a peer is slowed down.
type Pressure uint8

// Pressures.
const (
	NoPressure Pressure = iota
	// Hesitate takes messages and holds their acknowledgements back, so that a peer with a window waits.
	Hesitate
	// Refuse takes no messages. The peer sends the reliable ones again.
	Refuse
)

// Stranding is the reason why a handshake does not go on.
type Stranding uint8

// Reasons why a handshake does not go on.
const (
	NotStranded    Stranding = iota
	Unanswered               // the server does not answer: another address may help
	KnownByEarlier           // the server knows the client by an address from before a Redial: only that one helps
)

// Confirmer is a dialling Conn of a protocol whose servers accept a client before they count it as joined.
//
// Dialled with Hello.Tentative, it reports Connected when the server has accepted it, and holds back the step of the
// handshake that makes it join. Until Confirm the server's Conn reports no Connected. The server's messages are
// received meanwhile; messages that are sent wait. A server gives up a client that is not confirmed within seconds.
type Confirmer interface {
	Conn
	// Confirm joins the server. It has no effect on a connection that is not tentative, or has ended.
	Confirm(now time.Time)
}
