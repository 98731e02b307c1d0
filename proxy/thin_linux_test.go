package proxy

import (
	"testing"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// TestStrangersAreThinnedAsLongAsAFloodLasts has a loop that keeps up because fewer strangers pass. More strangers
// pass again once the kernel drops few enough of them. Until then all strangers get their turns.
func TestStrangersAreThinnedAsLongAsAFloodLasts(t *testing.T) {
	b := besiege(t, 1, Kernel{Plain: true})
	l := b.loops[0]
	l.ask(stats.WorkKernel, func(r *relay.Relay, now time.Time) {
		thin := l.sampler
		at := func(what string, later time.Duration, one int) {
			thin.turn(now.Add(later), r)
			if thin.one != one {
				t.Errorf("%s: one of %d strangers passes, want of %d", what, thin.one, one)
			}
		}
		fallBehind(r, now, r.ListenerSocket(0))
		at("behind", 0, thinFirst)
		r.InputDrained()
		thin.dropped -= 2 * thinBear * thinFirst / thinFactor // as if the kernel had dropped so many since
		at("while the flood lasts", thinCalm, thinFirst)
		if turned := thin.turned.Sub(now); turned != thinCalm {
			t.Errorf("others got their turn after %v, want %v", turned, thinCalm)
		}
		at("after the flood", 2*thinCalm, thinFirst/thinFactor)
	})
}
