// Package policy has choices of the configuration that packages of the proxy act on. Each is a small number, whose
// words in the configuration are its Names. It knows nothing else of the program.
package policy

import "tidegate/internal/enum"

// Mode is how a route handles datagrams.
type Mode uint8

// Values of Mode.
const (
	// ModeTerminate ends each side's protocol and carries messages.
	ModeTerminate Mode = iota
	// ModeRelay passes datagrams unchanged. The listener's protocols look only at the first datagram of a client.
	ModeRelay
)

// Admit is the time when the upstream is asked about a new client.
type Admit uint8

// Values of Admit.
const (
	// UpstreamFirst dials the upstream before the client is admitted. So the client gets the upstream's refusal, or its
	// own client ID, in its own protocol.
	UpstreamFirst Admit = iota
	// ProofFirst admits the client, and dials the upstream once the client has proved its address.
	ProofFirst
	// AdmitAuto is ProofFirst for clients whose handshake proves their address before it ends (ENet, RUDP). So a flood
	// of forged clients never reaches a server. For all others it is UpstreamFirst.
	AdmitAuto
)

// Headers chooses the datagrams to a server that begin with a PROXY protocol header. The header names the client.
type Headers uint8

// Choices of Headers. Servers differ: a server that strips the header of the first datagram only takes a second
// header for the game's data.
const (
	HeadersOff        Headers = iota
	HeadersFirst              // on a session's first datagram, which may be lost
	HeadersUntilReply         // on all datagrams until the server has answered
	HeadersEvery              // on all datagrams
	HeadersSimple             // on all datagrams, in the Simple Proxy Protocol; the server may use it too
)

// Ordered says how ordered messages cross to a protocol without order.
type Ordered uint8

// Ways to treat order.
const (
	OrderedUnset  Ordered = iota // not set; two protocols that need it must set it
	OrderedStrict                // one message per round trip and channel: this keeps order, but lowers the rate
	OrderedFast                  // sent at once: this keeps the rate, and order only while the network keeps it
)

// Reliable says how reliable messages cross to a protocol that reports losses but does not resend.
type Reliable uint8

// Ways to treat reliability.
const (
	ReliableUnset  Reliable = iota // not set; two protocols that need it must set it
	ReliableResend                 // sent again until its arrival is known: at least once
	ReliableReport                 // sent once; losses are counted
)

// Envelope is the form of a message's ID in a protocol without message IDs.
type Envelope uint8

// Envelopes. docs/bridging.md has their layout.
const (
	EnvelopeID     Envelope = iota // packet byte where the protocol has one, ID, payload
	EnvelopeRaw                    // payload only
	EnvelopeFramed                 // as EnvelopeID, with a length before each ID: several messages in one
	// EnvelopeAggregate is EnvelopeFramed. In protocols with a packet byte, it also joins the messages of one turn in
	// one envelope.
	EnvelopeAggregate
)

// Unmapped is the treatment of messages that a map has no row for.
type Unmapped uint8

// Treatments.
const (
	UnmappedPasses Unmapped = iota // as without a map
	UnmappedDrops                  // dropped and counted
	UnmappedEnds                   // and the session ends
)

// Failure is what becomes of messages while a module of their route fails.
type Failure uint8

// Treatments.
const (
	FailureDrops  Failure = iota // dropped and counted
	FailurePasses                // as without the module
)

// Balance is a strategy that spreads sessions over the servers of an upstream.
type Balance uint8

// Strategies.
const (
	LeastSessions Balance = iota // the server with the fewest sessions for its weight; among equals, the first listed
	RoundRobin                   // one server after the other
	Weighted                     // one server after the other, each as often as its weight says, evenly spread
	Hash                         // by the client's address: each client keeps its server while that server is open
)

// Direction is the direction of a message, by its sender.
type Direction uint8

// Directions. A rule with Both applies to either direction.
const (
	Both Direction = iota
	FromClient
	FromUpstream
)

// Names returns the words of a type's values, in their order. The word of a value that the configuration cannot state
// is empty.
func (Mode) Names() []string { return []string{"terminate", "relay"} }

// Names returns the words of the values.
func (Admit) Names() []string { return []string{"upstream_first", "proof_first", "auto"} }

// Names returns the words of the values.
func (Headers) Names() []string { return []string{"off", "first", "until_reply", "every", "spp"} }

// Names returns the words of the values.
func (Ordered) Names() []string { return []string{"", "strict", "fast"} }

// Names returns the words of the values.
func (Reliable) Names() []string { return []string{"", "resend", "report"} }

// Names returns the words of the values.
func (Envelope) Names() []string { return []string{"id", "raw", "framed", "aggregate"} }

// Names returns the words of the values.
func (Unmapped) Names() []string { return []string{"pass", "drop", "end"} }

// Names returns the words of the values.
func (Failure) Names() []string { return []string{"drop", "pass"} }

// Names returns the words of the values.
func (Balance) Names() []string { return []string{"least_sessions", "round_robin", "weighted", "hash"} }

// Names returns the words of the values.
func (Direction) Names() []string { return []string{"any", "client", "upstream"} }

// String returns the envelope's word.
func (e Envelope) String() string { return enum.Name(e.Names(), e) }
