package config

import (
	"fmt"
	"slices"
	"strings"
)

// Filter is a rule about messages.
type Filter struct {
	Name      string        `toml:"name"`
	Verdict   FilterVerdict `toml:"verdict"` // empty: all
	From      Sender        `toml:"from"`
	Listeners []string      `toml:"listeners"`                     // names; empty: all
	Protocols []string      `toml:"protocols"`                     // of the sender; empty: all
	IDs       []Range       `toml:"ids"`                           // message IDs; empty: any
	Packets   []Range       `toml:"packets"`                       // first bytes of payloads; empty: any
	MinSize   Size          `toml:"min_size" min:"0B" max:"64MiB"` // of the payload
	MaxSize   Size          `toml:"max_size" min:"0B" max:"64MiB"` // 0: unbounded
	Modes     []Delivery    `toml:"modes"`                         // empty: all
	Rate      int           `toml:"rate" min:"0" max:"1000000"`    // messages of each session that pass in Per; 0: none
	Per       Duration      `toml:"per" min:"1ms" max:"1h"`
	Burst     int           `toml:"burst" min:"0" max:"1000000"` // at once after a rest; 0: Rate
}

// FilterVerdict is the treatment of messages that a rule matches, and of their sessions.
type FilterVerdict string

// Verdicts about messages.
const (
	FilterAllow      FilterVerdict = "allow"      // they pass; later rules are skipped
	FilterObserve    FilterVerdict = "observe"    // they are counted; later rules still apply
	FilterDrop       FilterVerdict = "drop"       // they are dropped
	FilterDisconnect FilterVerdict = "disconnect" // and the session ends
	FilterBan        FilterVerdict = "ban"        // and its address is banned, if it is proved
)

// Choices lists the words of the configuration.
func (FilterVerdict) Choices() []string {
	return choices(FilterAllow, FilterObserve, FilterDrop, FilterDisconnect, FilterBan)
}

// Sender is a side of a session.
type Sender string

// Senders.
const (
	FromAny      Sender = "any"
	FromClient   Sender = "client"
	FromUpstream Sender = "upstream"
)

// Choices lists the words of the configuration.
func (Sender) Choices() []string { return choices(FromAny, FromClient, FromUpstream) }

// Delivery is a mode of delivery, with the codecs' name.
type Delivery string

// Modes of delivery.
const (
	Unreliable          Delivery = "unreliable"
	UnreliableSequenced Delivery = "unreliable-sequenced"
	ReliableUnordered   Delivery = "reliable"
	ReliableOrdered     Delivery = "reliable-ordered"
	ReliableSequenced   Delivery = "reliable-sequenced"
	Notify              Delivery = "notify"
)

// Choices lists the words of the configuration.
func (Delivery) Choices() []string {
	return choices(Unreliable, UnreliableSequenced, ReliableUnordered, ReliableOrdered, ReliableSequenced, Notify)
}

// maxRules bounds the number of source rules, and of message rules.
const maxRules = 64

func (v *validator) countRules(list string, n int) {
	if n > maxRules {
		v.fault(item(list, maxRules), nil, fmt.Sprintf("at most %d rules of a kind", maxRules))
	}
}

// scope checks the listeners that a rule names.
func (v *validator) scope(path string, listeners []string) {
	for j, name := range listeners {
		v.reference(item(child(path, "listeners"), j), name, "listener", namesOf(v.Listeners, listenerName))
	}
}

func (v *validator) filters() {
	v.names("filter", namesOf(v.Filters, func(f Filter) string { return f.Name }))
	v.countRules("filter", len(v.Filters))
	for i, f := range v.Filters {
		path := item("filter", i)
		v.filterVerdict(path, f)
		v.warnRelayFilter(path, f)
		v.scope(path, f.Listeners)
		for j, name := range f.Protocols {
			v.protocol(item(child(path, "protocols"), j), name, func(t Traits) bool { return !t.Opaque })
		}
		for j, r := range f.Packets {
			if _, high := r.Bounds(); high > 255 {
				v.fault(item(child(path, "packets"), j), r, "bytes: 0 to 255")
			}
		}
		if f.MaxSize > 0 && f.MaxSize < f.MinSize {
			v.fault(child(path, "max_size"), f.MaxSize, fmt.Sprintf(`"0B", for no bound, or at least min_size, which is %s`,
				f.MinSize))
		}
	}
}

func (v *validator) filterVerdict(path string, f Filter) {
	key := child(path, "verdict")
	all := f.From == FromAny && len(f.Listeners)+len(f.Protocols)+len(f.IDs)+len(f.Packets)+len(f.Modes) == 0 &&
		f.MinSize == 0 && f.MaxSize == 0 && f.Rate == 0
	switch {
	case f.Verdict == "":
		v.fault(key, nil, either(f.Verdict.Choices()))
	case f.Verdict == FilterBan && f.From != FromClient:
		v.fault(key, f.Verdict, `another verdict, or from = "client": players are not responsible for messages from servers`)
	case all && f.Verdict != FilterObserve && f.Verdict != FilterAllow:
		v.warn(key, f.Verdict, "a condition, such as ids or rate: this rule matches every message")
	}
}

func (f *Filter) setDefaults() { *f = Filter{From: FromAny, Per: seconds(1)} }

// warnRelayFilter warns about a message rule for listeners whose routes relay datagrams and so never see messages.
func (v *validator) warnRelayFilter(path string, f Filter) {
	var relayed []string
	for _, l := range v.Listeners {
		about := len(f.Listeners) == 0 || slices.Contains(f.Listeners, l.Name)
		if about && slices.ContainsFunc(v.Routes, func(r Route) bool { return r.Name == l.Route && r.Mode == Relay }) {
			relayed = append(relayed, `"`+l.Name+`"`)
		}
	}
	if len(relayed) > 0 {
		v.warn(child(path, "listeners"), f.Listeners, `listeners of routes with mode = "terminate": a relay sees no `+
			`messages, so `+
			"this rule has no effect on "+strings.Join(relayed, ", "))
	}
}
