package config

import "tidegate/ratelimit"

// Limit bounds a rate or the number of queued bytes. It replaces the default limit with the same Of and Per.
type Limit struct {
	Of      Quantity     `toml:"of"`
	Per     Scope        `toml:"per"`
	Rate    Amount       `toml:"rate"`                   // per second; of QueuedBytes: at any time
	Burst   Amount       `toml:"burst"`                  // at once after a rest; 0: Rate
	Verdict LimitVerdict `toml:"verdict" default:"drop"` // "off": there is no limit
}

// defaultLimits do not affect any known game, and stop a single source from occupying the whole proxy.
// docs/security/limits.md has the reasons.
var defaultLimits = []Limit{
	{WordOf(ratelimit.Packets), WordOf(ratelimit.PerSession), 10_000, 20_000, "drop"},
	{WordOf(ratelimit.Bytes), WordOf(ratelimit.PerSession), Amount(16 * MiB), Amount(32 * MiB), "drop"},
	{WordOf(ratelimit.Handshakes), WordOf(ratelimit.PerAddress), 10, 128, "drop"},
	{WordOf(ratelimit.Handshakes), WordOf(ratelimit.PerNetwork), 100, 400, "drop"},
	{WordOf(ratelimit.Handshakes), WordOf(ratelimit.Overall), 1000, 4000, "drop"},
	{WordOf(ratelimit.ReliableMessages), WordOf(ratelimit.PerSession), 50_000, 200_000, "disconnect"},
	{WordOf(ratelimit.QueuedBytes), WordOf(ratelimit.Overall), Amount(512 * MiB), 0, "drop"},
}

// largestDatagram is the size in bytes of the largest datagram of any protocol. A smaller burst would block it
// forever.
const largestDatagram = 4096

// maxAmount is the largest rate of bytes.
const maxAmount = Amount(1024 * GiB)

// Amount is a number. For bytes it may have a unit, like Size.
type Amount int64

// UnmarshalText reads a number of bytes with its unit.
func (a *Amount) UnmarshalText(text []byte) error { return (*Size)(a).UnmarshalText(text) }

// Quantity is the word for what a limit counts.
type Quantity = Word[ratelimit.Quantity]

// Scope is the word for whose input a limit counts together.
type Scope = Word[ratelimit.Scope]

// LimitVerdict is the word for the treatment of anything beyond a limit.
type LimitVerdict = Word[limitVerdict]

// limitVerdict is ratelimit.Verdict in the words of limits.
type limitVerdict ratelimit.Verdict

// Names returns the words of the values.
func (limitVerdict) Names() []string { return []string{"off", "observe", "drop", "disconnect", "ban"} }

// WordOfLimit returns the word of a verdict.
func WordOfLimit(v ratelimit.Verdict) LimitVerdict { return WordOf(limitVerdict(v)) }
