package setup

import (
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/proxy/relay/admission"
	"tidegate/ratelimit"
)

// TestEveryLimitArrives checks that each quantity, scope and verdict of the configuration has its value in ratelimit.
func TestEveryLimitArrives(t *testing.T) {
	for quantity := range ratelimit.Quantities {
		for scope := range ratelimit.Scopes {
			of, per := config.WordOf(quantity), config.WordOf(scope)
			for v := ratelimit.Observe; v <= ratelimit.BanSource; v++ {
				verdict := config.WordOfLimit(v)
				b := rateLimit(config.Limit{Of: of, Per: per, Rate: 10, Burst: 20, Verdict: verdict}, 1)
				if b.Of.String() != string(of) || b.Per.String() != string(per) || b.Verdict.String() != string(verdict) {
					t.Errorf("%s %s %s became %v, %v", of, per, verdict, b, b.Verdict)
				}
				if b.Rate != (ratelimit.Rate{PerSecond: 10, Burst: 20}) {
					t.Errorf("%v has rate %+v", b, b.Rate)
				}
			}
		}
	}
}

// TestLimitsAreShared checks that loops share limits, except for limits of a session, which is on one loop.
func TestLimitsAreShared(t *testing.T) {
	l := config.Limit{Of: config.WordOf(ratelimit.Packets), Rate: 10, Burst: 20, Verdict: "drop"}
	for per, want := range map[ratelimit.Scope]ratelimit.Rate{
		ratelimit.PerSession: {PerSecond: 10, Burst: 20},
		ratelimit.PerAddress: {PerSecond: 4, Burst: 20},
		ratelimit.PerNetwork: {PerSecond: 4, Burst: 20},
		ratelimit.Overall:    {PerSecond: 4, Burst: 7},
	} {
		l.Per = config.WordOf(per)
		if got := rateLimit(l, 3).Rate; got != want {
			t.Errorf("%s over 3 loops: %+v, want %+v", per, got, want)
		}
	}
}

func TestBanTerms(t *testing.T) {
	want := ratelimit.Terms{
		First: 10 * time.Minute, Longest: 24 * time.Hour, Memory: 24 * time.Hour,
	}
	if got := BanTerms(config.Default().Bans); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestHeldBounds checks the shares of loops: a session has room for its largest messages, and the sum is the whole.
func TestHeldBounds(t *testing.T) {
	for _, test := range []struct {
		loops int
		want  admission.HeldBounds
	}{
		{1, admission.HeldBounds{Session: 16 << 20, Address: 32 << 20, Overall: 256 << 20}},
		{8, admission.HeldBounds{Session: 16 << 20, Address: 32 << 20, Overall: 32 << 20}},
		{64, admission.HeldBounds{Session: 4 << 20, Address: 32 << 20, Overall: 4 << 20}},
	} {
		c := config.Default()
		if got := heldBounds(c, test.loops); got != test.want {
			t.Errorf("%d loops: %+v, want %+v", test.loops, got, test.want)
		}
	}
	c := config.Default()
	c.Options["raknet"].(*protocols.RakNetSettings).MaxMessage = 20 << 20
	if got := heldBounds(c, 1).Session; got != 40<<20 {
		t.Errorf("a session with messages of 20 MiB has %d bytes", got)
	}
}

// TestOneSourceLeavesPlaces has limits of sources above the sizes of their tables. Others still have an eighth.
func TestOneSourceLeavesPlaces(t *testing.T) {
	c := config.Default()
	c.Limits.Sessions, c.Limits.HalfOpen = 60, 30
	c.Limits.SessionsPerAddress = 5
	l := Settings(c, 1, Secrets{}).Limits
	if l.Address != 5 || l.Network != 20 || l.HalfOpenAddress != 27 || l.HalfOpenNetwork != 27 {
		t.Errorf("%+v", l)
	}
	c.Limits.Sessions, c.Limits.SessionsPerAddress = 7, 128 // too small for a share
	if l = Settings(c, 1, Secrets{}).Limits; l.Address != 7 || l.Network != 7 {
		t.Errorf("%+v", l)
	}
}

// TestUnprovedParts leaves each client without proof what the real game's world needs, as far as its network has it.
func TestUnprovedParts(t *testing.T) {
	for whole, want := range map[config.Size][2]int{
		32 * config.MiB: {4 << 20, 512 << 10}, 4800 * config.KiB: {600 << 10, 512 << 10},
		256 * config.KiB: {32 << 10, 32 << 10}, config.GiB: {128 << 20, 16 << 20},
	} {
		c := config.Default()
		c.Limits.UnprovedBytes = whole
		if u := Settings(c, 1, Secrets{}).Unproved; [2]int{u.Network, u.Session} != want || u.Overall != int(whole) {
			t.Errorf("%s: %+v, want %v", whole, u, want)
		}
	}
}

// TestTimeOfHealthChecks has the time for an answer by the interval.
func TestTimeOfHealthChecks(t *testing.T) {
	for every, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond, 2 * time.Second: time.Second, 6 * time.Second: 3 * time.Second,
		time.Hour: 5 * time.Second,
	} {
		if got := checks(&config.Upstream{Protocol: "bedrock", HealthInterval: config.Duration(every)}); got.Timeout != want {
			t.Errorf("every %s: %s for an answer, want %s", every, got.Timeout, want)
		}
	}
}
