package config

import (
	"strings"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
)

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

// isCountry reports whether a code is in countryCodes.
func isCountry(code string) bool {
	return len(code) == 2 && !strings.Contains(code, " ") && strings.Contains(countryCodes, code+" ")
}

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
