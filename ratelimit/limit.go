package ratelimit

import "tidegate/internal/enum"

// Quantity is the thing that a Limit counts.
type Quantity uint8

// Quantities. All but QueuedBytes are rates.
const (
	Packets          Quantity = iota // datagrams from clients
	Bytes                            // their payloads
	Handshakes                       // datagrams that ask for a session
	ReliableMessages                 // messages from clients
	QueuedBytes                      // bytes of messages that wait to be sent or acknowledged, in either direction
	Quantities
)

var quantityNames = []string{"packets", "bytes", "handshakes", "reliable_messages", "queued_bytes"}

// Names returns the words of the quantities.
func (Quantity) Names() []string { return quantityNames }

// String returns the name used in the configuration, logs and metrics.
func (q Quantity) String() string { return enum.Name(quantityNames, q) }

// UnmarshalText reads the form that String writes.
func (q *Quantity) UnmarshalText(text []byte) error { return enum.Parse(quantityNames, text, q) }

// Scope is the set of sources that share a Limit.
type Scope uint8

// Scopes, from the narrowest to the widest.
const (
	PerSession Scope = iota
	PerAddress
	PerNetwork
	Overall // all sessions of one Relay
	Scopes
)

var scopeNames = []string{"session", "address", "network", "overall"}

// Names returns the words of the scopes.
func (Scope) Names() []string { return scopeNames }

// String returns the name used in the configuration, logs and metrics.
func (s Scope) String() string { return enum.Name(scopeNames, s) }

// UnmarshalText reads the form that String writes.
func (s *Scope) UnmarshalText(text []byte) error { return enum.Parse(scopeNames, text, s) }

// Limit bounds a quantity within a scope. For QueuedBytes, Rate.PerSecond is the largest number of bytes at any time.
type Limit struct {
	Of      Quantity
	Per     Scope
	Rate    Rate
	Verdict Verdict // applied beyond the limit
}

// String returns the form used in logs and ban reasons, for example "packets per session".
func (l Limit) String() string {
	if l.Per == Overall {
		return l.Of.String() + " overall"
	}
	return l.Of.String() + " per " + l.Per.String()
}

// Verdict is the action on a datagram, message or new client that breaks a limit or matches a rule.
type Verdict uint8

// Verdicts, from the mildest to the hardest. A source without a session can only be dropped.
const (
	Pass       Verdict = iota
	Observe            // let it pass, and count what would have happened
	Drop               // drop it
	Disconnect         // drop it and end the session
	BanSource          // end the session and ban the address, if the session has proved it
)

var verdictNames = []string{"pass", "observe", "drop", "disconnect", "ban"}

// String returns the name used in the configuration, logs and metrics.
func (v Verdict) String() string { return enum.Name(verdictNames, v) }
