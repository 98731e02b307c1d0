package relay

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/riptide"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
)

// Riptide's quality rules would end sessions in the weather of these tests, as they should.
var steady22 = riptide.New(riptide.Options{IgnoreQuality: true})

// promise is the delivery that a pair of protocols can keep in one direction.
type promise uint8

const (
	exactlyOnce promise = iota
	atLeastOnce
	atMostOnce
)

func promiseOf(near, far codec.Protocol) promise {
	switch {
	case !near.Spec().Modes.AnyReliable():
		return atMostOnce
	case far.Spec().Modes.AnyReliable():
		return exactlyOnce
	case far.Spec().Modes.Has(codec.Notify):
		return atLeastOnce
	}
	return atMostOnce
}

// matrixRoute returns a route that any pair of protocols can use.
func matrixRoute(client, upstream codec.Protocol) *Route {
	r := defaultRoute(upstream)
	r.Bridge.Reliable = policy.ReliableResend
	r.Bridge.AllowLossy = promiseOf(client, upstream) == atMostOnce || promiseOf(upstream, client) == atMostOnce
	if client.Spec().Joins || upstream.Spec().Joins {
		r.Bridge.Envelope = policy.EnvelopeFramed
	}
	if client.Spec().Closed && upstream.Spec().IDs == codec.IDBeside || upstream.Spec().Closed &&
		client.Spec().IDs == codec.IDBeside {
		r.Bridge.Envelope = policy.EnvelopeRaw // R-Type carries only its own instructions
	}
	return r
}

const bodySize = 12

// body returns the text of message i. All have bodySize bytes, so that a test can split joined messages.
func body(i int) []byte { return fmt.Appendf(nil, "message %04d", i) }

// instruction is the form in which R-Type can carry a body: an update of component 0 of entity 1.
var instruction = []byte{3, 0, 0, 0, 1, 0, 0}

// say sends message i from one end of a session, in the strongest mode of that end's protocol.
func (w *world) say(p *peer, near, far codec.Protocol, r *Route, i int) {
	w.t.Helper()
	m := codec.Message{Payload: body(i), Mode: codec.Unreliable}
	for _, mode := range []codec.Mode{codec.ReliableOrdered, codec.Reliable, codec.UnreliableSequenced} {
		if near.Spec().Modes.Has(mode) {
			m.Mode = mode
			break
		}
	}
	if near.Spec().Closed || far.Spec().Closed {
		m.Payload = append(bytes.Clone(instruction), m.Payload...)
	}
	m.ID = uint16(i)
	w.send(p, bridge.WrappingOf(near.Spec(), far.Spec(), &r.Bridge).Wrap(nil, m))
}

// heard counts the bodies that one end of a session has received. Any other content is a failure.
func heard(t *testing.T, p *peer, near, far codec.Protocol, r *Route) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	for _, m := range p.received() {
		err := bridge.WrappingOf(near.Spec(), far.Spec(), &r.Bridge).Unwrap(m, func(one codec.Message) {
			rest := one.Payload
			if near.Spec().Closed || far.Spec().Closed {
				var found bool
				if rest, found = bytes.CutPrefix(rest, instruction); !found {
					return // R-Type's own: the announcement of its components
				}
			}
			for ; len(rest) >= bodySize; rest = rest[bodySize:] {
				seen[string(rest[:bodySize])]++
			}
			if len(rest) > 0 {
				t.Fatalf("received %q; no peer sent it", one.Payload)
			}
		})
		if err != nil {
			t.Fatalf("received %x: %v", m.Payload, err)
		}
	}
	return seen
}

// TestMatrix joins every protocol to every other. In bad weather each direction keeps the promise of the pair.
func TestMatrix(t *testing.T) {
	family := members(oneDialect)
	for _, client := range family {
		for _, upstream := range family {
			t.Run(client.String()+" to "+upstream.String(), func(t *testing.T) {
				for _, seed := range simnet.Seeds(5) {
					matrixRun(t, seed, client, upstream, func(*world) {})
				}
			})
		}
	}
}

// TestMatrixInFoulWeather joins every two protocols that promise exactly once. The network loses 30 % of the datagrams
// on both legs, and duplicates and reorders others. No message is lost, doubled, changed or, where both promise that,
// out of order. A session may end, since Riptide gives up after 15 transmissions. Until then nothing is doubled or out
// of order. Both legs of each session meet the weather.
func TestMatrixInFoulWeather(t *testing.T) {
	foul := simnet.Weather{Loss: 0.3, Duplication: 0.1, Latency: 10 * time.Millisecond, Jitter: 60 * time.Millisecond}
	family := members(oneDialect)
	pairs, runs, ended := 0, 0, 0
	for _, client := range family {
		for _, upstream := range family {
			if promiseOf(client, upstream) != exactlyOnce || promiseOf(upstream, client) != exactlyOnce {
				continue
			}
			pairs++
			t.Run(client.String()+" to "+upstream.String(), func(t *testing.T) {
				for _, seed := range simnet.Seeds(5) {
					runs++
					r := matrixRunIn(t, seed, client, upstream, foul, func(*world) {})
					if r.ended {
						ended++
					}
					checkMet(t, seed, "the players'", r.world.metAt(listenerAddr), client.transport.Stream)
					checkMet(t, seed, "the server's", r.world.metAt(serverAddr), upstream.transport.Stream)
				}
			})
		}
	}
	t.Logf("%d pairs; %d of %d sessions ended", pairs, ended, runs)
	if pairs < 36 || ended > runs/100 {
		t.Error("too few pairs, or too many ended")
	}
}

// metAt returns what the weather has done to the datagrams to and from an address.
func (w *world) metAt(addr netip.AddrPort) simnet.Met {
	return w.Met(func(from, to netip.AddrPort) bool { return from == addr || to == addr })
}

// checkMet asserts that a leg has met foul weather. A stream hides all but delays.
func checkMet(t *testing.T, seed uint64, leg string, met simnet.Met, stream bool) {
	t.Helper()
	if met.Lost == 0 || !stream && (met.Doubled == 0 || met.Overtaking == 0) {
		t.Errorf("seed %d: %s leg has met %+v", seed, leg, met)
	}
}

// connectFirst lets the first player join, and connects it. An R-Type client counts as connected once it has heard a
// message. Other protocols' servers do not send one by themselves.
func (w *world) connectFirst(client, upstream member) *player {
	w.t.Helper()
	p := w.join(codec.Hello{})
	if client.Spec().Closed && !upstream.Spec().Closed {
		w.await("at the server", 5*time.Second, func() bool { return len(w.servers[0].peers) == 1 })
		server := w.servers[0].peers[0]
		w.await("joined", 5*time.Second, func() bool { return server.find(codec.Connected) != nil })
		w.tellGame(server, upstream, client, gameHead())
	}
	w.await("connected", 20*time.Second, func() bool { return p.find(codec.Connected) != nil })
	return p
}

// matrixRun plays one session. begin is called once the session is established. The session must live.
func matrixRun(t *testing.T, seed uint64, client, upstream member, begin func(*world)) *world {
	t.Helper()
	r := matrixRunIn(t, seed, client, upstream, simnet.Weather{
		Loss: 0.1, Duplication: 0.05, Latency: 5 * time.Millisecond, Jitter: 15 * time.Millisecond,
	}, begin)
	if r.ended {
		t.Errorf("seed %d: the session ended: %v", seed, r.player.find(codec.Disconnected).Reason)
	}
	return r.world
}

// matrixResult is a session of TestMatrix after its end. A session that ended may lack messages.
type matrixResult struct {
	world  *world
	player *player
	ended  bool
}

// matrixRunIn is matrixRun in a weather.
func matrixRunIn(t *testing.T, seed uint64, client, upstream member, weather simnet.Weather, begin func(*world)) (
	r matrixResult) {
	t.Helper()
	const messages = 60
	route := matrixRoute(client.Protocol, upstream.Protocol)
	route.Upstream.Transport = upstream.transport
	w := newWorldWith(t, seed, simnet.Weather{Latency: 5 * time.Millisecond}, client.Protocol, route, func(s *Settings) {
		s.Listeners[0].Transport = client.transport
	})
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Admit(now, 101)
			if upstream.Spec().Closed { // its client counts as connected once it has heard a message
				_ = p.conn.Send(now, codec.Message{Payload: []byte{0, 0, 0, 0, 1}})
			}
		}
	}
	p := w.connectFirst(client, upstream)
	w.Run(200 * time.Millisecond)
	begin(w)
	server := w.servers[0].peers[0]
	w.SetWeather(weather)
	for i := 0; i < messages && !p.gone() && !server.gone(); i++ {
		w.say(&p.peer, client, upstream, route, i)
		w.say(server, upstream, client, route, i)
		w.Run(25 * time.Millisecond)
	}
	w.Run(10 * time.Second)
	r = matrixResult{w, p, p.gone()}
	check := func(what string, promised promise, seen map[string]int) {
		t.Helper()
		n := 0
		for i := range messages {
			times := seen[string(body(i))]
			delete(seen, string(body(i)))
			if times > 0 {
				n++
			}
			if promised == exactlyOnce && times > 1 || times == 0 && promised != atMostOnce && !r.ended {
				t.Errorf("seed %d, %s: message %d arrived %d times", seed, what, i, times)
			}
		}
		for other := range seen {
			t.Errorf("seed %d, %s: %q was never sent", seed, what, other)
		}
		if n < messages/2 && !r.ended {
			t.Errorf("seed %d, %s: only %d of %d arrived", seed, what, n, messages)
		}
	}
	check("to the server", promiseOf(client, upstream), heard(t, server, upstream, client, route))
	check("to the client", promiseOf(upstream, client), heard(t, &p.peer, client, upstream, route))
	if client.Spec().Modes.Has(codec.ReliableOrdered) && upstream.Spec().Modes.Has(codec.ReliableOrdered) {
		checkOrder(t, server)
		checkOrder(t, &p.peer)
	}
	return r
}

// checkOrder checks that the messages of say have arrived in their order.
func checkOrder(t *testing.T, p *peer) {
	t.Helper()
	next := 0
	for _, m := range p.received() {
		if !bytes.Contains(m.Payload, body(next)) {
			t.Errorf("%q arrived, want message %d", m.Payload, next)
		}
		next++
	}
}
