package ratelimit

// Quantity is what a Limit counts.
type Quantity uint8

// Quantities. All but QueuedBytes are rates.
const (
	Packets          Quantity = iota // datagrams from clients
	Bytes                            // their payloads
	Handshakes                       // datagrams that ask for a session
	ReliableMessages                 // from clients
	QueuedBytes                      // of messages that wait to be sent or acknowledged, towards either side
	Quantities
)

var quantityNames = [Quantities]string{"packets", "bytes", "handshakes", "reliable_messages", "queued_bytes"}

// String is the quantity's name as in configuration, logs and metrics.
func (q Quantity) String() string {
	if q < Quantities {
		return quantityNames[q]
	}
	return "unknown"
}

// Scope is what a Limit counts together.
type Scope uint8

// Scopes, from the narrowest to the widest.
const (
	PerSession Scope = iota
	PerAddress
	PerNetwork
	Overall // of one Relay
	Scopes
)

var scopeNames = [Scopes]string{"session", "address", "network", "overall"}

// String is the scope's name as in configuration, logs and metrics.
func (s Scope) String() string {
	if s < Scopes {
		return scopeNames[s]
	}
	return "unknown"
}

// Limit bounds a quantity within a scope. Of QueuedBytes the bound is Rate.PerSecond, at any time.
type Limit struct {
	Of      Quantity
	Per     Scope
	Rate    Rate
	Verdict Verdict // on what goes beyond
}

// String is the limit as in logs and reasons of bans, for example "packets per session".
func (l Limit) String() string {
	if l.Per == Overall {
		return l.Of.String() + " overall"
	}
	return l.Of.String() + " per " + l.Per.String()
}
