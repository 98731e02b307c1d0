package config

// choice is a type that accepts only a few words.
type choice interface{ Choices() []string }

// LogLevel is the lowest severity that is logged.
type LogLevel string

// Log levels.
const (
	Debug LogLevel = "debug"
	Info  LogLevel = "info"
	Warn  LogLevel = "warn"
	Error LogLevel = "error"
)

// Choices lists the words of the configuration.
func (LogLevel) Choices() []string { return words(Debug, Info, Warn, Error) }

// LogFormat is the form of log lines.
type LogFormat string

// Log formats.
const (
	FormatAuto  LogFormat = "auto"  // human on a terminal, json elsewhere
	FormatHuman LogFormat = "human" // a colored line for each entry
	FormatJSON  LogFormat = "json"  // a JSON object for each entry
)

// Choices lists the words of the configuration.
func (LogFormat) Choices() []string { return words(FormatAuto, FormatHuman, FormatJSON) }

// Backend is the interface between a loop and the kernel.
type Backend string

// Backends.
const (
	BackendAuto     Backend = "auto"     // epoll on Linux, portable elsewhere
	BackendEpoll    Backend = "epoll"    // batched system calls, Linux only
	BackendPortable Backend = "portable" // Go's own sockets
)

// Choices lists the words of the configuration.
func (Backend) Choices() []string { return words(BackendAuto, BackendEpoll, BackendPortable) }

// Admit is the moment at which a joining client is admitted.
type Admit string

// Moments of admission.
const (
	UpstreamFirst Admit = "upstream_first" // after the upstream server has accepted it
	ProofFirst    Admit = "proof_first"    // after it has proved its address
)

// Choices lists the words of the configuration.
func (Admit) Choices() []string { return words(UpstreamFirst, ProofFirst) }

// Ordered is the handling of ordered messages on a protocol without order.
type Ordered string

// Ways to send ordered messages.
const (
	Strict Ordered = "strict" // one message per round trip and channel: keeps the order, not the rate
	Fast   Ordered = "fast"   // at once: keeps the rate, but the order only if the network does
)

// Choices lists the words of the configuration.
func (Ordered) Choices() []string { return words(Strict, Fast) }

// Reliable is the handling of reliable messages on a protocol that reports losses but does not resend.
type Reliable string

// Ways to send reliable messages.
const (
	Resend Reliable = "resend" // repeat until acknowledged: at least once
	Report Reliable = "report" // send once and count losses
)

// Choices lists the words of the configuration.
func (Reliable) Choices() []string { return words(Resend, Report) }

// Undeclared is the handling of messages without declared types between dialects that encode values differently.
type Undeclared string

// Ways to handle undeclared messages.
const (
	UndeclaredPass Undeclared = "pass" // unchanged
	UndeclaredDrop Undeclared = "drop" // dropped and counted
)

// Choices lists the words of the configuration.
func (Undeclared) Choices() []string { return words(UndeclaredPass, UndeclaredDrop) }

// Envelope is the place of a message's ID in a protocol without message IDs.
type Envelope string

// Envelopes.
const (
	EnvelopeID     Envelope = "id"     // the ID in 2 bytes before the payload
	EnvelopeRaw    Envelope = "raw"    // the payload alone
	EnvelopeFramed Envelope = "framed" // as id, after a 2-byte length
	// EnvelopeAggregate is framed, with several messages in one RakNet message.
	EnvelopeAggregate Envelope = "aggregate"
)

// Choices lists the words of the configuration.
func (Envelope) Choices() []string {
	return words(EnvelopeID, EnvelopeRaw, EnvelopeFramed, EnvelopeAggregate)
}

// PongSource is the source of a listener's server list text.
type PongSource string

// Sources of the text.
const (
	PongAuto       PongSource = "auto"       // the upstream's servers in mode relay, else the protocol's own option
	PongConfigured PongSource = "configured" // the protocol's own option
	PongUpstream   PongSource = "upstream"   // the upstream's servers
)

// Choices lists the words of the configuration.
func (PongSource) Choices() []string { return words(PongAuto, PongConfigured, PongUpstream) }

// Balance is the strategy that chooses a server for the next session.
type Balance string

// Strategies.
const (
	LeastSessions Balance = "least_sessions"
	RoundRobin    Balance = "round_robin"
	Weighted      Balance = "weighted"
	Hash          Balance = "hash"
)

// Choices lists the words of the configuration.
func (Balance) Choices() []string { return words(LeastSessions, RoundRobin, Weighted, Hash) }

func words[T ~string](values ...T) []string {
	text := make([]string, len(values))
	for i, v := range values {
		text[i] = string(v)
	}
	return text
}
