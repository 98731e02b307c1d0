package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"tidegate/proxy"
	"tidegate/ratelimit"
)

// Why is the JSON of what decides about an address.
type Why struct {
	Address  string     `json:"address"`
	Running  bool       `json:"running"`  // a running proxy has said so; else its configuration and files do
	Decision string     `json:"decision"` // about its next newcomer: "allow", "drop", or "depends" on the listener
	Because  string     `json:"because"`  // of what, in words
	Country  string     `json:"country,omitempty"`
	Network  int        `json:"network,omitempty"` // number of the autonomous system
	Holder   string     `json:"holder,omitempty"`  // who has that
	Bans     []WhyBan   `json:"bans"`              // in force: one or none
	Rules    []WhyRule  `json:"rules"`             // of each listener
	Limits   []WhyLimit `json:"limits"`            // used up
	Sessions []Session  `json:"sessions"`
	Drops    []WhyDrop  `json:"drops"` // the last ones, oldest first
}

// WhyBan is the JSON of a ban.
type WhyBan struct {
	Prefix string    `json:"prefix"`
	Reason string    `json:"reason"`
	Author string    `json:"author"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // none: for ever
}

// WhyRule is the JSON of what the rules about sources say at a listener.
type WhyRule struct {
	Listener string   `json:"listener"`
	Rule     string   `json:"rule,omitempty"` // none decides
	Verdict  string   `json:"verdict"`        // "pass" or "drop"
	Observed []string `json:"observed,omitempty"`
}

// WhyLimit is the JSON of a limit that is used up.
type WhyLimit struct {
	Limit   string `json:"limit"`
	Verdict string `json:"verdict"`
	Session string `json:"session,omitempty"` // none: it is that of newcomers
}

// WhyDrop is the JSON of drops alike.
type WhyDrop struct {
	At       time.Time `json:"at"` // the last one's
	Reason   string    `json:"reason"`
	Listener string    `json:"listener"`
	From     string    `json:"from"`
	Bytes    int       `json:"bytes"`           // the last one's
	Cause    string    `json:"cause,omitempty"` // rule or limit
	Times    uint64    `json:"times"`
}

// maxWhySessions bounds the sessions that are told of one address: a whole network may be behind it.
const maxWhySessions = 100

func (s *Server) why(r *http.Request) (Why, error) {
	text := r.URL.Query().Get("address")
	address, err := netip.ParseAddr(text)
	if err != nil {
		return Why{}, misuse{fmt.Errorf("address %q: want an IP address", text)}
	}
	found, err := s.Proxy.Why(r.Context(), address)
	if err != nil {
		return Why{}, err
	}
	w := Explain(&found)
	w.Running = true
	return w, nil
}

// Explain is the JSON of what a proxy, or its configuration alone, says of an address.
func Explain(of *proxy.Why) Why {
	w := Why{
		Address: of.Address.String(),
		Country: of.Place.Country, Network: int(of.Place.Network), Holder: of.Place.Holder,
		Bans: []WhyBan{}, Rules: []WhyRule{}, Limits: []WhyLimit{}, Sessions: []Session{}, Drops: []WhyDrop{},
	}
	w.Decision, w.Because = decide(of)
	if b := of.Ban; b != nil {
		w.Bans = append(w.Bans, WhyBan{b.Prefix.String(), b.Reason, b.Author, b.Since, b.Until})
	}
	for _, s := range of.Sources {
		w.Rules = append(w.Rules, WhyRule{s.Listener, s.Rule, s.Verdict.String(), s.Observed})
	}
	for _, l := range of.Limits {
		limit := WhyLimit{Limit: l.Limit, Verdict: l.Verdict.String()}
		if l.Session != 0 {
			limit.Session = l.Session.String()
		}
		w.Limits = append(w.Limits, limit)
	}
	for i := range of.Sessions[:min(len(of.Sessions), maxWhySessions)] {
		w.Sessions = append(w.Sessions, sessionOf(&of.Sessions[i]))
	}
	for _, d := range of.Drops {
		drop := WhyDrop{At: d.At, Reason: d.Reason.String(), Listener: d.Listener, From: d.From.String(), Bytes: d.Bytes, Times: d.Times}
		if d.Cause != nil {
			drop.Cause = d.Cause.Error()
		}
		w.Drops = append(w.Drops, drop)
	}
	return w
}

// decide finds what decides about the next newcomer of an address, in the order in which a proxy asks.
func decide(of *proxy.Why) (decision, because string) {
	if of.Ban != nil {
		return "drop", "ban of " + of.Ban.Prefix.String()
	}
	for _, l := range of.Limits {
		if l.Session == 0 && l.Verdict >= ratelimit.Drop {
			return "drop", "limit of " + l.Limit
		}
	}
	because = "nothing is about it"
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
	return "depends", because + ", which is not about every listener"
}
