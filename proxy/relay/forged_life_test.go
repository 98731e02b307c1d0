package relay

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/units"
	"tidegate/proxy/relay/admission"
	"tidegate/ratelimit"
)

// forgery is one way to write datagrams in the name of an address without hearing the answers. said are the datagrams
// of an honest client that has played before.
type forgery struct {
	name string
	do   func(w *world, v *victimOf, said []timedDatagram)
}

// timedDatagram is a datagram of a client, with the time since its first one.
type timedDatagram struct {
	at    time.Duration
	bytes []byte
}

var forgeries = []forgery{
	{"one datagram", func(w *world, v *victimOf, said []timedDatagram) { v.forge(w, 0, said[0].bytes) }},
	{"a deaf client", func(w *world, v *victimOf, _ []timedDatagram) {
		conn := w.clients.Dial(w.Now(), listenerAddr, codec.Hello{})
		var speak func()
		speak = func() {
			conn.Advance(w.Now())
			for _, ok := conn.Poll(); ok; _, ok = conn.Poll() {
			}
			for b, ok := conn.Transmit(w.Now(), nil); ok; b, ok = conn.Transmit(w.Now(), nil) {
				v.forge(w, 0, b)
			}
			if w.Now().Sub(v.since) < time.Minute {
				w.After(50*time.Millisecond, speak)
			}
		}
		speak()
	}},
	{"a replayed session", replay},
	{"a session replayed again and again", func(w *world, v *victimOf, said []timedDatagram) {
		for n := range 10 { // acknowledgements and heartbeats may fit later datagrams too
			w.After(time.Duration(n)*3*time.Second, func() { replay(w, v, said) })
		}
	}},
	{"guessed answers", func(w *world, v *victimOf, said []timedDatagram) {
		replay(w, v, said)
		for i := range 20 { // small numbers: client IDs of a Riptide server, sequence numbers
			for j, d := range said[:min(len(said), 4)] {
				guess := bytes.Clone(d.bytes)
				guess[len(guess)-1-(i%2)*(len(guess)/2)] += byte(i)
				v.forge(w, time.Duration(i*4+j)*20*time.Millisecond, guess)
			}
		}
	}},
}

func replay(w *world, v *victimOf, said []timedDatagram) {
	for _, d := range said {
		v.forge(w, d.at, d.bytes)
	}
}

// forgedAs returns the client protocols of TestForgedLifeFactor. R-Type's clients may be silent for 20 s.
func forgedAs() []member {
	all := []member{{Protocol: raknet.New(raknet.Options{Cookies: raknet.CookiesNone})}}
	for _, d := range protocols.All {
		options, use := d.Options(), registry.Use{Seed: testSeed}
		if o, ok := options.(*protocols.RTypeSettings); ok {
			o.IdleTimeout = units.Duration(20 * time.Second)
			all = append(all, member{Protocol: d.New(options, use)})
			continue
		}
		all = append(all, member{Protocol: named(d.Name, use)})
	}
	return all
}

// TestForgedLifeFactor asserts that a forged address gets at most three times the bytes that were sent in its name,
// over the whole life of all its sessions, headers of IP and UDP included. It tries every pair of protocols, every
// admit mode and every forgery, from an address that never played, and from one that played a minute ago. The server
// sends all the time. Budgets for larger answers are spent, since they come on top (docs/security/amplification.md).
func TestForgedLifeFactor(t *testing.T) {
	for _, client := range forgedAs() {
		t.Run(client.String(), func(t *testing.T) {
			t.Parallel()
			worst := 0.0
			for _, server := range udpMembers(oneDialect) {
				if isLeftToHeavy(client, server) {
					continue
				}
				for _, admit := range []policy.Admit{policy.UpstreamFirst, policy.ProofFirst, policy.AdmitAuto} {
					if admit == policy.ProofFirst && client.Spec().IDs == codec.IDBeside && server.Spec().IDs == codec.IDBeside {
						continue // the configuration refuses it
					}
					for _, f := range forgeries {
						for _, played := range []bool{false, true} {
							factor := forgedFactor(t, client, server, admit, f, played)
							worst = max(worst, factor)
							if factor > admission.Amplification {
								t.Errorf("to %v, admit %d, %s, played before %v: factor %.1f, want at most %d",
									server, admit, f.name, played, factor, admission.Amplification)
							}
						}
					}
				}
			}
			t.Logf("%v: factor %.2f at most", client, worst)
		})
	}
}

// forgedFactor lets a client play and leave, and then forges an address. It returns the factor.
func forgedFactor(t *testing.T, client, server member, admit policy.Admit, f forgery, played bool) float64 {
	route := matrixRoute(client.Protocol, server.Protocol)
	route.Admit = admit
	w := newWorldWith(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, client.Protocol, route, func(s *Settings) {
		s.Answers = ratelimit.Rates{Overall: 1, Network: 1}
		s.Unproved = admission.Unproved{Session: 1, Network: 1, Overall: 1}
	})
	w.servers[0].react = w.chatters(server, client)
	honest := netip.MustParseAddrPort("10.9.9.9:5000")
	victim := netip.MustParseAddrPort("203.0.113.7:5000")
	if played {
		victim = honest
	}
	said := w.record(honest)
	v := &victimOf{addr: victim, since: w.Now()}
	v.watch(w)
	l := w.proxy.relay.listeners[0]
	for i := range 1500 {
		l.mayAnswer(w.Now().Add(time.Duration(i)*time.Second), victim)
	}
	f.do(w, v, said)
	w.Run(time.Minute)
	if !w.RunUntil(20*time.Minute, func() bool { return w.proxy.relay.table.Len() == 0 }) {
		t.Errorf("%v to %v, %s: the session does not end", client, server, f.name)
	}
	told := v.told
	if w.Run(20 * time.Second); v.told != told {
		t.Errorf("%v to %v, %s: %d bytes after the end of the session", client, server, f.name, v.told-told)
	}
	return float64(v.told) / float64(max(v.asked, 1))
}

// victimOf counts the bytes on the wire from and to a forged address.
type victimOf struct {
	addr        netip.AddrPort
	asked, told int
	since       time.Time
}

// forge sends a datagram in the victim's name.
func (v *victimOf) forge(w *world, after time.Duration, datagram []byte) {
	w.After(after, func() { v.asked += admission.WireSize(v.addr, len(datagram)) })
	w.Inject(after, v.addr, listenerAddr, bytes.Clone(datagram))
}

func (v *victimOf) watch(w *world) {
	w.SetPath(listenerAddr, v.addr, simnet.Weather{Loss: 1})
	w.SetTap(func(from, to netip.AddrPort, datagram []byte) {
		if from == listenerAddr && to == v.addr {
			v.told += admission.WireSize(to, len(datagram))
		}
	})
}

// record lets a client join from an address, play for two seconds, and fall silent until its session has ended. It
// returns the client's datagrams.
func (w *world) record(from netip.AddrPort) (said []timedDatagram) {
	began := w.Now()
	w.SetTap(func(source, to netip.AddrPort, datagram []byte) {
		if source == from && to == listenerAddr {
			said = append(said, timedDatagram{w.Now().Sub(began), bytes.Clone(datagram)})
		}
	})
	w.joinFrom(from, codec.Hello{})
	w.Run(2 * time.Second)
	kept := len(said)
	w.SetPath(from, listenerAddr, simnet.Weather{Loss: 1})
	gone := w.RunUntil(20*time.Minute, func() bool { return w.proxy.relay.table.Len() == 0 })
	w.Run(time.Minute)
	w.SetPath(from, listenerAddr, simnet.Weather{})
	if said = said[:kept]; kept == 0 || !gone {
		w.t.Fatalf("recorded %d datagrams; the session is gone: %v", kept, gone)
	}
	return said
}

// chatters returns a game's reaction: it admits every client and sends it messages at 50 Hz until it is gone. Each
// client gets the same ID, as the only player of a Riptide server does. So a replayed Welcome has the right ID.
func (w *world) chatters(server, client member) func(time.Time, *peer, *codec.Event) {
	inner := greets(func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Admit(now, 1)
		}
	})
	return func(now time.Time, p *peer, ev *codec.Event) {
		if inner(now, p, ev); ev.Kind == codec.Asked {
			w.chatter(p, server, client, 0)
		}
	}
}

func (w *world) chatter(p *peer, server, client member, n int) {
	if p.gone() {
		return
	}
	if n%10 == 0 {
		_ = p.conn.Send(w.Now(), codec.Message{Payload: []byte{0, 0, 0, 0, 1}, HasID: server.Spec().IDs == codec.IDBeside})
	}
	m := codec.Message{Payload: body(n), Mode: strongest(server), ID: 1, HasID: server.Spec().IDs == codec.IDBeside}
	if server.Spec().Closed || client.Spec().Closed {
		m.Payload, m.Mode = []byte{0, 0, 0, 0, byte(n)}, codec.Unreliable // R-Type: entity n exists
	}
	_ = p.conn.Send(w.Now(), m) // refused before the client is connected
	w.After(20*time.Millisecond, func() { w.chatter(p, server, client, n+1) })
}
