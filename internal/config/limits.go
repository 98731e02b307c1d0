package config

import (
	"reflect"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
)

// Limits bounds sessions and durations, over all listeners together.
type Limits struct {
	Sessions int `toml:"sessions" default:"10000" min:"1" max:"1000000"`
	// Sessions of one address (package source), and four times as many of its network.
	SessionsPerAddress int `toml:"sessions_per_address" default:"128" min:"1" max:"1000000"`
	HalfOpen           int `toml:"half_open" default:"1000" min:"1" max:"1000000"` // before the end of their handshake
	HalfOpenPerAddress int `toml:"half_open_per_address" default:"100" min:"1" max:"1000000"`

	// Memory of unfinished and early messages, and of data of handshakes.
	HeldBytes Size `toml:"held_bytes" default:"256MiB" min:"1MiB" max:"1024GiB"`

	HandshakeTimeout Duration `toml:"handshake_timeout" default:"10s" min:"1s" max:"5m"`
	IdleTimeout      Duration `toml:"idle_timeout" default:"30s" min:"1s" max:"24h"`
	DrainGrace       Duration `toml:"drain_grace" min:"0s" max:"24h"` // for sessions to end at shutdown
	// Answers per second to strangers that are larger than the question, for each listener.
	PingAnswers int `toml:"ping_answers" default:"2000" min:"1" max:"1000000"`
	// Bytes per second, on the wire, to clients that have not proved their address.
	UnprovedBytes   Size     `toml:"unproved_bytes" default:"32MiB" min:"256KiB" max:"1GiB"`
	TrustedNetworks []Prefix `toml:"trusted_networks"` // networks without forged addresses
}

// Amounts returns the keys that are numbers or sizes, with their values.
func (l *Limits) Amounts() map[string]int {
	amounts, of := make(map[string]int), reflect.ValueOf(*l)
	for i := range of.NumField() {
		key := of.Type().Field(i).Tag.Get("toml")
		switch v := of.Field(i).Interface().(type) {
		case int:
			amounts[key] = v
		case Size:
			amounts[key] = int(v)
		}
	}
	return amounts
}

// SessionCost is the memory in bytes of a session between RakNet and RakNet, the most expensive one.
const SessionCost = 14 << 10

// doorsCost is the memory in bytes that connections to the admin server and the embedded NATS server can take.
const doorsCost = 32 << 20

// joinsCost is the memory in bytes that the HTTP connections of NetherNet's clients can take at all listeners.
const joinsCost = 32 << 20

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

// Access is a rule about the addresses of players.
type Access struct {
	Name      string        `toml:"name"`
	Verdict   AccessVerdict `toml:"verdict"`
	Listeners []string      `toml:"listeners"` // names; empty: all
	Prefixes  []Prefix      `toml:"prefixes"`
	Files     []string      `toml:"files"`     // lists of prefixes
	Countries []string      `toml:"countries"` // ISO 3166 codes
	Networks  []int64       `toml:"networks"`  // numbers of autonomous systems
}

// AccessVerdict is the word for the treatment of players that a source rule matches.
type AccessVerdict = Word[accessVerdict]

// accessVerdict is ratelimit.Verdict in the words of source rules. Players who are allowed skip later rules.
type accessVerdict ratelimit.Verdict

// Names returns the words of the values.
func (accessVerdict) Names() []string { return []string{"allow", "observe", "drop"} }

// Geo names the operator's MaxMind databases.
type Geo struct {
	CountryFile string `toml:"country_file"` // empty: none
	NetworkFile string `toml:"network_file"` // empty: none
}

// maxASN is the largest autonomous system number.
const maxASN = 1<<32 - 1

// countryCodes are the two-letter codes of ISO 3166-1, and XK for Kosovo, which databases of places use as well.
const countryCodes = "" +
	"AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ " +
	"CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO " +
	"FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE " +
	"JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO " +
	"MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW " +
	"PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM " +
	"TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW "

// Filter is a rule about messages.
type Filter struct {
	Name      string        `toml:"name"`
	Verdict   FilterVerdict `toml:"verdict"` // empty: all
	From      Sender        `toml:"from" default:"any"`
	Listeners []string      `toml:"listeners"`                     // names; empty: all
	Protocols []string      `toml:"protocols"`                     // of the sender; empty: all
	IDs       []Range       `toml:"ids"`                           // message IDs; empty: any
	Packets   []Range       `toml:"packets"`                       // first bytes of payloads; empty: any
	MinSize   Size          `toml:"min_size" min:"0B" max:"64MiB"` // of the payload
	MaxSize   Size          `toml:"max_size" min:"0B" max:"64MiB"` // 0: unbounded
	Modes     []Delivery    `toml:"modes"`                         // empty: all
	Rate      int           `toml:"rate" min:"0" max:"1000000"`    // messages of each session that pass in Per; 0: none
	Per       Duration      `toml:"per" default:"1s" min:"1ms" max:"1h"`
}

// FilterVerdict is the word for the treatment of messages that a rule matches, and of their sessions.
type FilterVerdict = Word[filterVerdict]

// filterVerdict is ratelimit.Verdict in the words of message rules. Messages that are allowed skip later rules.
type filterVerdict ratelimit.Verdict

// Names returns the words of the values.
func (filterVerdict) Names() []string {
	return []string{"allow", "observe", "drop", "disconnect", "ban"}
}

// Sender is a side of a session.
type Sender = Word[policy.Direction]

// Delivery is the word for a mode of delivery.
type Delivery = Word[delivery]

// delivery is codec.Mode, with the codecs' words.
type delivery codec.Mode

// Names returns the words of the values.
func (delivery) Names() []string {
	names := make([]string, codec.ModeCount)
	for mode := range names {
		names[mode] = codec.Mode(mode).String()
	}
	return names
}

// maxRules bounds the number of source rules, and of message rules.
const maxRules = 64
