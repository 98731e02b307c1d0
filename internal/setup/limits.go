package setup

import (
	"time"

	"tidegate/internal/config"
	"tidegate/ratelimit"
)

// bounds are one loop's limits of rates and queues.
func bounds(c *config.Config, loops int) []ratelimit.Limit {
	var all []ratelimit.Limit
	for _, l := range c.EffectiveLimits() {
		all = append(all, bound(l, loops))
	}
	return all
}

func bound(l config.Limit, loops int) ratelimit.Limit {
	b := ratelimit.Limit{
		Of:      read[ratelimit.Quantity](l.Of),
		Per:     read[ratelimit.Scope](l.Per),
		Verdict: read[ratelimit.Verdict](l.Verdict),
		Rate:    ratelimit.Rate{PerSecond: int(l.Rate), Burst: int(l.Burst)},
	}
	// The kernel spreads clients over the loops by address and port, so that each has its share of what many send. A burst
	// may come from one client, who is one loop's alone.
	if b.Per != ratelimit.PerSession {
		b.Rate.PerSecond = shareUp(b.Rate.PerSecond, loops)
	}
	if b.Per == ratelimit.Overall {
		b.Rate.Burst = shareUp(b.Rate.Burst, loops)
	}
	return b
}

// shareUp is one loop's part of a limit, rounded up: of small ones none is left without.
func shareUp(limit, loops int) int { return (limit + loops - 1) / loops }

// BanTerms are those of the bans that Tidegate itself imposes.
func BanTerms(b config.Bans) ratelimit.Terms {
	return ratelimit.Terms{
		First: time.Duration(b.First), Longest: time.Duration(b.Longest), Memory: time.Duration(b.Memory),
		Networks: ratelimit.Networks{V4: b.IPv4, V6: b.IPv6},
	}
}
