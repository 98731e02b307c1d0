package relay

import (
	"net/netip"
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
	"tidegate/ratelimit"
)

// usualLimits returns the default limits that apply to a session.
func usualLimits() []ratelimit.Limit {
	return []ratelimit.Limit{
		limit(ratelimit.Packets, ratelimit.PerSession, 10_000, 20_000, ratelimit.Drop),
		limit(ratelimit.Bytes, ratelimit.PerSession, 16<<20, 32<<20, ratelimit.Drop),
		limit(ratelimit.ReliableMessages, ratelimit.PerSession, 50_000, 200_000, ratelimit.Disconnect),
		limit(ratelimit.QueuedBytes, ratelimit.Overall, 1<<30, 1, ratelimit.Drop),
	}
}

// allLimits returns one limit of every kind that applies to a session. The session reaches none of them.
func allLimits() (all []ratelimit.Limit) {
	for of := range ratelimit.Quantities {
		for per := range ratelimit.Scopes {
			if of != ratelimit.Handshakes {
				all = append(all, limit(of, per, 1<<30, 1<<30, ratelimit.Disconnect))
			}
		}
	}
	return all
}

// limited makes a pipe whose Relay has limits.
func limited(t testing.TB, bounds []ratelimit.Limit) *pipe {
	p := newPipe(t, riptide22(), riptide22())
	fresh := *p.world.settings
	fresh.Bounds = bounds
	p.world.proxy.relay.Reload(p.now, &fresh, nil)
	return p
}

var limitedMessage = codec.Message{Payload: make([]byte, 200), Mode: codec.Reliable, ID: 7, HasID: true}

// BenchmarkLimits runs BenchmarkRelay's round from Riptide to Riptide without limits, with the default limits, and
// with all possible limits.
func BenchmarkLimits(b *testing.B) {
	for _, c := range []struct {
		name   string
		bounds []ratelimit.Limit
	}{{"none", nil}, {"usual", usualLimits()}, {"all", allLimits()}} {
		b.Run(c.name, func(b *testing.B) {
			p := limited(b, c.bounds)
			b.ReportAllocs()
			for b.Loop() {
				p.round(limitedMessage)
			}
		})
	}
}

func TestLimitsDoNotAllocate(t *testing.T) {
	p := limited(t, allLimits())
	for range 100 {
		p.round(limitedMessage)
	}
	if n := allocs.PerRun(200, func() { p.round(limitedMessage) }); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
	if p.player.gone() {
		t.Error("limits that are not reached ended the session")
	}
}

// TestStrangersCostNoAllocation asserts that dropping a stranger's datagram allocates nothing.
func TestStrangersCostNoAllocation(t *testing.T) {
	p := limited(t, append(allLimits(), limit(ratelimit.Handshakes, ratelimit.PerAddress, 1, 1, ratelimit.Drop)))
	p.world.bans().Add(ratelimit.Ban{Prefix: netip.MustParsePrefix("30.0.0.0/8")})
	relay, listenerSocket := p.world.proxy.relay, p.world.proxy.sockets[listenerAddr]
	relay.sockets.Sockets = p
	garbage := []byte("garbage")
	for name, d := range map[string][]byte{"garbage": garbage, "a Connect": {2}, "nothing": {}} {
		i := 0
		give := func() {
			i++
			relay.Receive(p.now, listenerSocket, strangerAddr(i), d) // banned
			relay.Receive(p.now, listenerSocket, playerAddr(200), garbage)
		}
		for range 100 {
			give()
		}
		if n := allocs.PerRun(500, give); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
