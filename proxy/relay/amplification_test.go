package relay

import (
	"cmp"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/proxy/relay/admission"
	"tidegate/ratelimit"
)

// victim counts the bytes from and to a forged address.
type victim struct {
	addr              netip.AddrPort
	asked, told       int // bytes on the wire
	askedRaw, toldRaw int // of payload
}

func (v *victim) watch(w *world) {
	w.SetPath(listenerAddr, v.addr, simnet.Weather{Loss: 1}) // the forger does not hear the answers
	w.SetTap(func(from, to netip.AddrPort, datagram []byte) {
		switch {
		case from == v.addr && to == listenerAddr:
			v.asked += admission.WireSize(from, len(datagram))
			v.askedRaw += len(datagram)
		case from == listenerAddr && to == v.addr:
			v.told += admission.WireSize(to, len(datagram))
			v.toldRaw += len(datagram)
		}
	})
}

// talkative admits every client and then sends it messages at 50 Hz.
func (w *world) talkative() {
	inner := greets(welcome())
	for _, g := range w.servers {
		g.react = func(now time.Time, p *peer, ev *codec.Event) {
			inner(now, p, ev)
			if ev.Kind == codec.Asked {
				w.talk(p, 0)
			}
		}
	}
}

func (w *world) talk(p *peer, n int) {
	m := codec.Message{Payload: append([]byte{0, 0, 0, 0, byte(n)}, make([]byte, 200)...)}
	if w.settings.Listeners[0].Route.Upstream.Protocol.Spec().Closed {
		m.Payload = m.Payload[:5] // R-Type: entity n exists
	}
	m.HasID = w.settings.Listeners[0].Route.Upstream.Protocol.Spec().IDs == codec.IDBeside
	_ = p.conn.Send(w.Now(), m)
	if n < 200 {
		w.After(20*time.Millisecond, func() { w.talk(p, n+1) })
	}
}

// TestAmplification asserts that a forged address gets at most three times the bytes that were sent with it. The
// forger sends one datagram, or continues like a client that hears nothing. The game server sends as much as it
// likes. Only answers and an allowance come on top. Their own budgets are almost empty here.
func TestAmplification(t *testing.T) {
	for _, c := range amplifiers() {
		for _, admit := range []policy.Admit{policy.UpstreamFirst, policy.ProofFirst} {
			once, going := forgedOnce(t, c.protocol, admit), forgedOn(t, c.protocol, admit)
			for how, v := range map[string]*victim{"one datagram": once, "a deaf client": going} {
				factor := float64(v.told) / float64(v.asked)
				t.Logf("%s, admit %d, %s: %d bytes for %d on the wire, factor %.2f; of payload %d for %d",
					c.name, admit, how, v.told, v.asked, factor, v.toldRaw, v.askedRaw)
				if v.asked == 0 || factor > c.most {
					t.Errorf("%s, admit %d, %s: factor %.2f, want at most %.1f", c.name, admit, how, factor, c.most)
				}
			}
		}
	}
}

type amplifier struct {
	name     string
	protocol codec.Protocol
	most     float64 // measured, rounded up; docs/security/amplification.md has the figures
}

// amplifiers returns every protocol, and RakNet without cookies. A protocol without a measured figure may have a
// factor of 3.
func amplifiers() []amplifier {
	measured := map[string]float64{"raknet": 0.1, "bedrock": 0.1}
	all := []amplifier{{"raknet without cookies", raknet.New(raknet.Options{Cookies: raknet.CookiesNone}), 0.1}}
	for _, d := range protocols.All {
		all = append(all, amplifier{d.Name, named(d.Name, registry.Use{Seed: testSeed}), cmp.Or(measured[d.Name], 3)})
	}
	return all
}

// forgedWorld makes a world almost without a budget for answers. Another address of the forged address's network has
// spent it.
func forgedWorld(t *testing.T, p codec.Protocol, admit policy.Admit) *world {
	route := matrixRoute(p, p)
	route.Admit = admit
	w := newWorldWith(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, p, route, func(s *Settings) {
		s.Answers = ratelimit.Rates{Overall: 1, Network: 1}
		s.Unproved = admission.Unproved{Session: 1, Network: 1, Overall: 1}
	})
	w.talkative()
	return w
}

func (w *world) spendAnswers(v *victim) {
	l := w.proxy.relay.listeners[0]
	for i := range 60 { // for the next minute
		at := w.Now().Add(time.Duration(i) * time.Second)
		l.mayAnswer(at, v.addr)
	}
}

func forgedOnce(t *testing.T, p codec.Protocol, admit policy.Admit) *victim {
	w := forgedWorld(t, p, admit)
	v := &victim{addr: playerAddr(0)}
	v.watch(w)
	w.spendAnswers(v)
	first, _ := p.Dial(w.Now(), listenerAddr, codec.Hello{}).Transmit(w.Now(), nil)
	v.asked, v.askedRaw = admission.WireSize(v.addr, len(first)), len(first)
	w.Inject(0, v.addr, listenerAddr, first)
	w.Run(30 * time.Second)
	return v
}

func forgedOn(t *testing.T, p codec.Protocol, admit policy.Admit) *victim {
	w := forgedWorld(t, p, admit)
	v := &victim{addr: playerAddr(0)}
	v.watch(w)
	w.spendAnswers(v)
	w.join(codec.Hello{})
	w.Run(30 * time.Second)
	return v
}
