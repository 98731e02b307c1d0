package riptide

import "time"

// Version selects a dialect of the protocol.
type Version uint8

// The dialects. Neither understands a message of the other.
const (
	V22 Version = iota // Riptide 2.1.0 to 2.2.1, which understand each other
	V20                // Riptide 2.0
)

var names = [...]string{V22: "riptide-2.2", V20: "riptide-2.0"}

// The library's defaults.
const (
	defaultHeartbeat      = time.Second
	defaultTimeout        = 5 * time.Second
	defaultConnectTimeout = 10 * time.Second
	defaultAttempts       = 5
	defaultPayload        = 1225
	maxMessage            = defaultPayload + 6 // in 2.1+; 2.0's are a byte shorter
)

// defaultQueued is a default of our own.
const defaultQueued = 1 << 20

// Options tune a Protocol. The zero value means the library's own behaviour.
type Options struct {
	Version Version
	// HeartbeatInterval spaces a client's heartbeats and connection attempts; 1 s if zero.
	HeartbeatInterval time.Duration
	// TimeoutTime is how long a connection lives without a heartbeat; 5 s if zero. A late heartbeat has half of
	// HeartbeatInterval more.
	TimeoutTime time.Duration
	// ConnectTimeout is how long either side waits for the server's answer to a connection attempt; 10 s if zero.
	ConnectTimeout time.Duration
	// MaxAttempts is how often a client sends Connect; 5 if zero.
	MaxAttempts int
	// MaxPayload is the library's setting of that name, in bytes; 1225 if zero. A message takes up to 6 bytes
	// more, or 5 in 2.0. Both ends must agree on it, or a peer of 2.0 can die of a larger message. The largest that
	// makes sense is codec.MaxDatagram less those 6 bytes.
	MaxPayload int
	// MaxQueued bounds the bytes of messages that wait to be sent or acknowledged; 1 MiB if zero.
	MaxQueued int
	// MaxInFlight bounds how many reliable messages are under way, counted from the oldest unacknowledged one; at
	// most 4096. Riptide has no such bound, but its receivers lose count of more (docs/protocols/riptide.md#duplicates):
	// in 2.0 of more than 16, after any loss, so 16 if zero; in 2.1+ of more than 31, after a burst of losses, which is
	// left to chance for the sake of rate: 4096 if zero.
	MaxInFlight int
	// IgnoreQuality keeps connections whose messages need many transmissions, or whose notify messages are lost. A
	// reliable message that 15 transmissions do not deliver ends a connection in any case. Always so in 2.0, which
	// does not measure quality and is more patient with a message (docs/protocols/riptide.md#resends).
	IgnoreQuality bool
	// Stream is for a connection over TCP, where nothing is lost and many transmissions only mean that the stream
	// stalls: 2.1+ is as patient as 2.0 then.
	Stream bool

	// patient is whether slowSends come after maxSends.
	patient bool
	// maxDatagram is the size of the largest message, which is a datagram of its own.
	maxDatagram int
	// first is the first sequence number of everything, 1 if zero as in every real session. Tests of wrap-around
	// choose another.
	first seq
}

func (o Options) withDefaults() Options {
	o.HeartbeatInterval = orDefault(o.HeartbeatInterval, defaultHeartbeat)
	o.TimeoutTime = orDefault(o.TimeoutTime, defaultTimeout)
	o.ConnectTimeout = orDefault(o.ConnectTimeout, defaultConnectTimeout)
	o.MaxAttempts = orDefault(o.MaxAttempts, defaultAttempts)
	o.MaxPayload = orDefault(o.MaxPayload, defaultPayload)
	o.MaxQueued = orDefault(o.MaxQueued, defaultQueued)
	o.patient = dialects[o.Version].patient || o.Stream
	o.IgnoreQuality = o.IgnoreQuality || o.patient
	o.maxDatagram = o.MaxPayload + dialects[o.Version].overhead
	o.first = orDefault(o.first, firstSeq)
	o.MaxInFlight = min(orDefault(o.MaxInFlight, dialects[o.Version].inFlight), windowSize)
	return o
}

func orDefault[T int | time.Duration | seq](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}
