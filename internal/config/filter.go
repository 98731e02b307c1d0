package config

import (
	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
)

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
