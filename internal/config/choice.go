package config

// choice is a value that is one of a few words.
type choice interface{ Choices() []string }

// LogLevel is the least severe level that is logged.
type LogLevel string

// Log levels.
const (
	Debug LogLevel = "debug"
	Info  LogLevel = "info"
	Warn  LogLevel = "warn"
	Error LogLevel = "error"
)

// Choices lists the values in the configuration.
func (LogLevel) Choices() []string { return words(Debug, Info, Warn, Error) }

// LogFormat is the form of log lines.
type LogFormat string

// Log formats.
const (
	FormatAuto  LogFormat = "auto"  // human on a terminal, json elsewhere
	FormatHuman LogFormat = "human" // one colored line an entry
	FormatJSON  LogFormat = "json"  // one JSON object a line
)

// Choices lists the values in the configuration.
func (LogFormat) Choices() []string { return words(FormatAuto, FormatHuman, FormatJSON) }

// Backend is how a loop talks to the kernel.
type Backend string

// Backends.
const (
	BackendAuto     Backend = "auto"     // epoll on Linux, portable elsewhere
	BackendEpoll    Backend = "epoll"    // batched system calls, Linux only
	BackendPortable Backend = "portable" // Go's own sockets
)

// Choices lists the values in the configuration.
func (Backend) Choices() []string { return words(BackendAuto, BackendEpoll, BackendPortable) }

// Admit is when a client that asks to join is told yes.
type Admit string

// Times of admission.
const (
	UpstreamFirst Admit = "upstream_first" // once the upstream server has accepted it
	ProofFirst    Admit = "proof_first"    // once it has proved its address
)

// Choices lists the values in the configuration.
func (Admit) Choices() []string { return words(UpstreamFirst, ProofFirst) }

// Ordered is how messages that must keep their order are sent over a protocol that does not keep it.
type Ordered string

// Ways to send ordered messages.
const (
	Strict Ordered = "strict" // one per round trip and channel: order is kept, rate is not
	Fast   Ordered = "fast"   // at once: rate is kept, order only while the network keeps it
)

// Choices lists the values in the configuration.
func (Ordered) Choices() []string { return words(Strict, Fast) }

// Reliable is how messages that must arrive are sent over a protocol that tells what was lost but does not resend it.
type Reliable string

// Ways to send reliable messages.
const (
	Resend Reliable = "resend" // kept, and sent again until known to have arrived: at least once
	Report Reliable = "report" // sent once; what is lost is counted
)

// Choices lists the values in the configuration.
func (Reliable) Choices() []string { return words(Resend, Report) }

// Undeclared is what happens to messages without declared types between dialects that spell values differently.
type Undeclared string

// Ways to treat undeclared messages.
const (
	UndeclaredPass Undeclared = "pass" // as they are
	UndeclaredDrop Undeclared = "drop" // dropped and counted
)

// Choices lists the values in the configuration.
func (Undeclared) Choices() []string { return words(UndeclaredPass, UndeclaredDrop) }

// Envelope is how a message's ID travels over a protocol without message IDs.
type Envelope string

// Envelopes.
const (
	EnvelopeID     Envelope = "id"     // the ID in 2 bytes before the payload
	EnvelopeRaw    Envelope = "raw"    // the payload alone
	EnvelopeFramed Envelope = "framed" // as id, with a 2-byte length before it
	// EnvelopeAggregate is framed, and several messages in one of RakNet.
	EnvelopeAggregate Envelope = "aggregate"
)

// Choices lists the values in the configuration.
func (Envelope) Choices() []string {
	return words(EnvelopeID, EnvelopeRaw, EnvelopeFramed, EnvelopeAggregate)
}

// PongSource is where the text comes from that server lists show.
type PongSource string

// Sources of the text.
const (
	PongAuto       PongSource = "auto"       // the upstream's servers in mode relay, else the protocol's own option
	PongConfigured PongSource = "configured" // the protocol's own option
	PongUpstream   PongSource = "upstream"   // the upstream's servers
)

// Choices lists the values in the configuration.
func (PongSource) Choices() []string { return words(PongAuto, PongConfigured, PongUpstream) }

// Balance is which server of an upstream gets the next session.
type Balance string

// Balances.
const (
	LeastSessions Balance = "least_sessions"
	RoundRobin    Balance = "round_robin"
	Weighted      Balance = "weighted"
	Hash          Balance = "hash"
)

// Choices lists the values in the configuration.
func (Balance) Choices() []string { return words(LeastSessions, RoundRobin, Weighted, Hash) }

func words[T ~string](values ...T) []string {
	text := make([]string, len(values))
	for i, v := range values {
		text[i] = string(v)
	}
	return text
}
