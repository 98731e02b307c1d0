package admin

import (
	"net/netip"
	"testing"

	"tidegate/proxy"
	"tidegate/ratelimit"
)

// TestWhyDecides has a row for each deciding cause, in the order of the proxy's own checks.
func TestWhyDecides(t *testing.T) {
	crowd := proxy.SourceWhy{Listener: "play", Rule: "crowd", Verdict: ratelimit.Drop}
	staff := proxy.SourceWhy{Listener: "staff", Rule: "office", Verdict: ratelimit.Pass}
	unruled := proxy.SourceWhy{Listener: "other"}
	const none = "no ban, limit or rule applies"
	watched := proxy.SourceWhy{Listener: "play", Observed: []string{"watch", "look"}}
	again := proxy.SourceWhy{Listener: "other", Observed: []string{"watch"}}
	full := proxy.LimitWhy{Limit: "packets per address", Verdict: ratelimit.Drop}
	for _, row := range []struct {
		why               proxy.Why
		decision, because string
	}{
		{proxy.Why{Sources: []proxy.SourceWhy{unruled}}, "allow", none},
		{
			proxy.Why{Sources: []proxy.SourceWhy{watched, again}},
			"allow", "no ban or limit applies, and rules that only observe: watch, look",
		},
		{proxy.Why{Sources: []proxy.SourceWhy{again, crowd}}, "depends", "rule crowd, not at every listener"},
		{proxy.Why{Sources: []proxy.SourceWhy{staff, unruled}}, "allow", "rule office"},
		{proxy.Why{Sources: []proxy.SourceWhy{crowd}}, "drop", "rule crowd"},
		{proxy.Why{Sources: []proxy.SourceWhy{staff, crowd}}, "depends", "rule crowd, not at every listener"},
		{proxy.Why{Sources: []proxy.SourceWhy{crowd, staff}}, "depends", "rule crowd, not at every listener"},
		{
			proxy.Why{Sources: []proxy.SourceWhy{crowd}, Limits: []proxy.LimitWhy{full}},
			"drop", "limit of packets per address",
		},
		{proxy.Why{Limits: []proxy.LimitWhy{{Limit: "x", Verdict: ratelimit.Drop, Session: 3}}}, "allow", none},
		{proxy.Why{Limits: []proxy.LimitWhy{{Limit: "x", Verdict: ratelimit.Observe}}}, "allow", none},
		{proxy.Why{Ban: &ratelimit.Ban{Prefix: netip.MustParsePrefix("192.0.2.0/24")}, Limits: []proxy.LimitWhy{full}},
			"drop", "ban of 192.0.2.0/24"},
	} {
		if decision, because := decide(&row.why); decision != row.decision || because != row.because {
			t.Errorf("%+v: %s, %s; want %s, %s", row.why, decision, because, row.decision, row.because)
		}
	}
}

func TestWhyTellsSessionsOfANetworkBehindAnAddress(t *testing.T) {
	many := proxy.Why{Sessions: make([]proxy.Session, maxWhySessions+1)}
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
