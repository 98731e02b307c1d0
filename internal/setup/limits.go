package setup

import (
	"time"

	"tidegate/internal/config"
	"tidegate/proxy/relay/admission"
	"tidegate/ratelimit"
)

// rateLimits returns one loop's limits of rates and queues.
func rateLimits(c *config.Config, loops int) []ratelimit.Limit {
	var all []ratelimit.Limit
	for _, l := range c.EffectiveLimits() {
		all = append(all, rateLimit(l, loops))
	}
	return all
}

func rateLimit(l config.Limit, loops int) ratelimit.Limit {
	b := ratelimit.Limit{
		Of:      l.Of.Value(),
		Per:     l.Per.Value(),
		Verdict: ratelimit.Verdict(l.Verdict.Value()),
		Rate:    ratelimit.Rate{PerSecond: int(l.Rate), Burst: int(l.Burst)},
	}
	// The kernel spreads clients over the loops by address and port. So each loop gets its share of a limit for many
	// clients. A burst may come from a single client, which stays on one loop.
	if b.Per != ratelimit.PerSession {
		b.Rate.PerSecond = shareUp(b.Rate.PerSecond, loops)
	}
	if b.Per == ratelimit.Overall {
		b.Rate.Burst = shareUp(b.Rate.Burst, loops)
	}
	return b
}

// heldBounds returns one loop's bounds on held memory. A loop has its share of the whole. A session has a part of
// it, and room for the largest message and the one behind it. Loops count an address together, and it has at least as
// much as one session.
func heldBounds(c *config.Config, loops int) admission.HeldBounds {
	held := int(c.Limits.HeldBytes)
	overall := shareUp(held, loops)
	session := min(max(held/16, 2*int(c.LargestMessage())), overall)
	return admission.HeldBounds{
		Session: session,
		Address: max(held/8, session),
		Overall: overall,
	}
}

// shareUp returns one loop's part of a limit, rounded up, so that small limits are not zero.
func shareUp(limit, loops int) int { return (limit + loops - 1) / loops }

// leaving returns the places that one source may take of a table. An eighth is for others, also where the limit is
// larger. A table of less than 8 places has none for them.
func leaving(limit, table int) int { return min(limit, table-table/8) }

// BanTerms returns the terms of the bans that Tidegate itself imposes.
func BanTerms(b config.Bans) ratelimit.Terms {
	return ratelimit.Terms{
		First: time.Duration(b.First), Longest: time.Duration(b.Longest), Memory: time.Duration(b.Longest),
	}
}
