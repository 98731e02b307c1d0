package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Why is the JSON of the decision about an address.
type Why struct {
	Address  string     `json:"address"`
	Running  bool       `json:"running"`  // answered by a running proxy; false: from configuration and files only
	Decision string     `json:"decision"` // about its next new session: "allow", "drop", or "depends" on the listener
	Because  string     `json:"because"`  // the deciding ban, limit or rule
	Country  string     `json:"country,omitempty"`
	Network  int        `json:"network,omitempty"` // number of the autonomous system
	Holder   string     `json:"holder,omitempty"`  // organization of the autonomous system
	Bans     []WhyBan   `json:"bans"`              // active bans: one or none
	Rules    []WhyRule  `json:"rules"`             // one per listener
	Limits   []WhyLimit `json:"limits"`            // exhausted limits
	Sessions []Session  `json:"sessions"`
	Drops    []WhyDrop  `json:"drops"`           // last drops, oldest first
	Joins    []string   `json:"joins,omitempty"` // of NetherNet clients: how far each came
	Kernel   string     `json:"kernel,omitempty"`
}

// WhyBan is the JSON of a ban.
type WhyBan struct {
	Prefix string    `json:"prefix"`
	Reason string    `json:"reason"`
	Author string    `json:"author"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // absent: permanent
}

// WhyBanOf returns the JSON of a ban.
func WhyBanOf(b *ratelimit.Ban) WhyBan {
	return WhyBan{b.Prefix.String(), b.Reason, b.Author, b.Since, b.Until}
}

// WhyRule is the JSON of the source rules' result at a listener.
type WhyRule struct {
	Listener string   `json:"listener"`
	Rule     string   `json:"rule,omitempty"` // absent: no rule decides
	Verdict  string   `json:"verdict"`        // "pass" or "drop"
	Observed []string `json:"observed,omitempty"`
}

// WhyLimit is the JSON of an exhausted limit.
type WhyLimit struct {
	Limit   string `json:"limit"`
	Verdict string `json:"verdict"`
	Session string `json:"session,omitempty"` // absent: a limit of new sessions
}

// WhyDrop is the JSON of equal drops in a row.
type WhyDrop struct {
	At       time.Time `json:"at"` // of the last one
	Reason   string    `json:"reason"`
	Listener string    `json:"listener"`
	From     string    `json:"from"`
	Bytes    int       `json:"bytes"`           // of the last one
	Cause    string    `json:"cause,omitempty"` // rule or limit
	Times    uint64    `json:"times"`
}

// maxWhySessions bounds the listed sessions of one address, since a whole network may be behind it.
const maxWhySessions = 100

func (s *Server) why(r *http.Request) (Why, error) {
	text := r.URL.Query().Get("address")
	address, err := netip.ParseAddr(text)
	if err != nil {
		return Why{}, badRequest{fmt.Errorf("address %q: want one IP address: the answer may differ within a network", text)}
	}
	q := &relay.ExplainAddress{Address: address}
	if err := s.Proxy.Ask(r.Context(), q); err != nil {
		return Why{}, err
	}
	w := Explain(&q.Why)
	w.Running, w.Kernel = true, s.past.kernel()
	return w, nil
}

// Explain returns the JSON of the answer of a proxy, or of its configuration alone.
func Explain(of *relay.Why) Why {
	w := Why{
		Address: of.Address.String(),
		Country: of.Place.Country, Network: int(of.Place.Network), Holder: of.Place.Holder,
		Bans: []WhyBan{}, Rules: []WhyRule{}, Drops: []WhyDrop{},
		Sessions: sessionsOf(of.Sessions[:min(len(of.Sessions), maxWhySessions)]),
	}
	w.Decision, w.Because = decide(of)
	if b := of.Ban; b != nil {
		w.Bans = append(w.Bans, WhyBanOf(b))
	}
	for _, s := range of.Sources {
		w.Rules = append(w.Rules, WhyRule{s.Listener, s.Rule, s.Verdict.String(), s.Observed})
	}
	w.Limits = limitsOf(of.Limits)
	for _, j := range of.Joins {
		w.Joins = append(w.Joins, j.String())
	}
	for i := range of.Drops {
		w.Drops = append(w.Drops, dropOf(&of.Drops[i]))
	}
	if last := len(w.Drops) - 1; last >= 0 && w.Decision == "allow" {
		w.Because += "; but its last datagram was dropped: " + w.Drops[last].Reason
	}
	return w
}

func limitsOf(limits []relay.LimitWhy) []WhyLimit {
	all := make([]WhyLimit, len(limits))
	for i, l := range limits {
		all[i] = WhyLimit{Limit: l.Limit, Verdict: l.Verdict.String()}
		if l.Session != 0 {
			all[i].Session = l.Session.String()
		}
	}
	return all
}

func dropOf(d *stats.RecentDrop) WhyDrop {
	drop := WhyDrop{
		At: d.At, Reason: d.Reason.String(), Listener: d.Listener, From: d.From.String(), Bytes: d.Bytes, Times: d.Times,
	}
	switch {
	case d.Cause != nil:
		drop.Cause = d.Cause.Error()
	case d.Reason == stats.DropNoCookie:
		drop.Cause = "the client did not return the cookie; set cookie_mode = \"none\" if its library cannot"
	}
	return drop
}

// observers returns the names of the rules that match and only observe.
func observers(sources []relay.SourceWhy) (names []string) {
	for i := range sources {
		for _, name := range sources[i].Observed {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// decide returns the decision about the next new session of an address, in the order of the proxy's own checks.
func decide(of *relay.Why) (decision, because string) {
	if of.Ban != nil {
		return "drop", "ban of " + of.Ban.Prefix.String()
	}
	for _, l := range of.Limits {
		if l.Session == 0 && l.Verdict >= ratelimit.Drop {
			return "drop", "limit of " + l.Limit
		}
	}
	because = "no ban, limit or rule applies"
	if watching := observers(of.Sources); len(watching) > 0 {
		because = "no ban or limit applies, and rules that only observe: " + strings.Join(watching, ", ")
	}
	dropped := 0
	for _, s := range of.Sources {
		switch {
		case s.Verdict >= ratelimit.Drop:
			dropped++
			because = "rule " + s.Rule
		case s.Rule != "" && dropped == 0:
			because = "rule " + s.Rule
		}
	}
	switch dropped {
	case 0:
		return "allow", because
	case len(of.Sources):
		return "drop", because
	}
	return "depends", because + ", not at every listener"
}
