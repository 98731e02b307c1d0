package admin

import (
	"net/netip"
	"testing"

	"tidegate/internal/joining"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// TestWhyDecides has a row for each deciding cause, in the order of the proxy's own checks.
func TestWhyDecides(t *testing.T) {
	crowd := relay.SourceWhy{Listener: "play", Rule: "crowd", Verdict: ratelimit.Drop}
	staff := relay.SourceWhy{Listener: "staff", Rule: "office", Verdict: ratelimit.Pass}
	unruled := relay.SourceWhy{Listener: "other"}
	const none = "no ban, limit or rule applies"
	watched := relay.SourceWhy{Listener: "play", Observed: []string{"watch", "look"}}
	again := relay.SourceWhy{Listener: "other", Observed: []string{"watch"}}
	full := relay.LimitWhy{Limit: "packets per address", Verdict: ratelimit.Drop}
	for _, row := range []struct {
		why               relay.Why
		decision, because string
	}{
		{relay.Why{Sources: []relay.SourceWhy{unruled}}, "allow", none},
		{
			relay.Why{Sources: []relay.SourceWhy{watched, again}},
			"allow", "no ban or limit applies, and rules that only observe: watch, look",
		},
		{relay.Why{Sources: []relay.SourceWhy{again, crowd}}, "depends", "rule crowd, not at every listener"},
		{relay.Why{Sources: []relay.SourceWhy{staff, unruled}}, "allow", "rule office"},
		{relay.Why{Sources: []relay.SourceWhy{crowd}}, "drop", "rule crowd"},
		{relay.Why{Sources: []relay.SourceWhy{staff, crowd}}, "depends", "rule crowd, not at every listener"},
		{relay.Why{Sources: []relay.SourceWhy{crowd, staff}}, "depends", "rule crowd, not at every listener"},
		{
			relay.Why{Sources: []relay.SourceWhy{crowd}, Limits: []relay.LimitWhy{full}},
			"drop", "limit of packets per address",
		},
		{relay.Why{Limits: []relay.LimitWhy{{Limit: "x", Verdict: ratelimit.Drop, Session: 3}}}, "allow", none},
		{relay.Why{Limits: []relay.LimitWhy{{Limit: "x", Verdict: ratelimit.Observe}}}, "allow", none},
		{relay.Why{Ban: &ratelimit.Ban{Prefix: netip.MustParsePrefix("192.0.2.0/24")}, Limits: []relay.LimitWhy{full}},
			"drop", "ban of 192.0.2.0/24"},
	} {
		if decision, because := decide(&row.why); decision != row.decision || because != row.because {
			t.Errorf("%+v: %s, %s; want %s, %s", row.why, decision, because, row.decision, row.because)
		}
	}
}

func TestWhyTellsSessionsOfANetworkBehindAnAddress(t *testing.T) {
	many := relay.Why{Sessions: make([]relay.Session, maxWhySessions+1)}
	if got := len(Explain(&many).Sessions); got != maxWhySessions {
		t.Errorf("%d sessions are told, want %d", got, maxWhySessions)
	}
}

func TestWhyWantsAnAddress(t *testing.T) {
	for _, path := range []string{"/api/v1/why", "/api/v1/why?address=example.com", "/api/v1/why?address=192.0.2.0/24"} {
		if got := newFake("").ask("GET", path, "").Code; got != 400 {
			t.Errorf("%s: %d, want 400", path, got)
		}
	}
}

// TestWhyTellsJoins lists how far the joins of an address came.
func TestWhyTellsJoins(t *testing.T) {
	client := netip.MustParseAddr("192.0.2.1")
	w := Explain(&relay.Why{Address: client, Joins: []joining.Join{{
		Client: client, Server: netip.MustParseAddrPort("10.0.0.5:19132"), Stage: joining.Refused, Reason: "code 37",
	}}})
	if len(w.Joins) != 1 || w.Joins[0] != "10.0.0.5:19132 refused 192.0.2.1: code 37" {
		t.Errorf("%q", w.Joins)
	}
}
