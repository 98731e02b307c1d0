package relay

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/internal/proxyproto"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// chain is a world whose first server is a second proxy in front of the second server. The second proxy trusts the
// first one's headers.
type chain struct {
	*world
	second *relayNode
}

// secondSockets is the index of the second proxy's first socket.
const secondSockets = 1000

func newChain(t *testing.T, weather simnet.Weather, p codec.Protocol, headers policy.Headers, mode policy.Mode) *chain {
	route := defaultRoute(p)
	route.Upstream.Headers, route.Mode, route.Bridge.AllowLossy, route.Bridge.Envelope = headers, mode, true,
		policy.EnvelopeRaw
	c := &chain{world: newWorld(t, 1, weather, p, route)}
	settings, back := *c.settings, *defaultRoute(p)
	back.Upstream.Servers = []upstream.Target{{Addr: secondAddr}}
	back.Bridge.AllowLossy, back.Bridge.Envelope = true, policy.EnvelopeRaw
	settings.Listeners = []Listener{{
		Name: "behind", Addr: serverAddr, Protocols: []codec.Protocol{p}, Route: &back,
		ProxiesFrom: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.PrefixFrom(listenerAddr.Addr(), 32)},
	}}
	c.second = &relayNode{
		net: c.Net, sockets: make(map[netip.AddrPort]*simSocket), buffer: make([]byte, 0, codec.MaxDatagram),
		dialed: secondSockets,
	}
	c.second.relay = New(&settings, Options{Seed: 2, Log: zerolog.Nop()}, c.second, c.Now())
	c.second.sockets[serverAddr] = &simSocket{addr: serverAddr}
	c.second.relay.Attach(0, c.second.sockets[serverAddr])
	c.Remove(serverAddr)
	addrs := []netip.AddrPort{serverAddr}
	for i := range 20 {
		addrs = append(addrs, upstreamSocketAddr(secondSockets+i))
	}
	c.Add(c.second, addrs...)
	return c
}

// clients returns the client addresses of the second proxy's sessions.
func (c *chain) clients() []netip.AddrPort {
	var all []netip.AddrPort
	for _, s := range c.second.relay.Snapshot(c.Now()).Sessions {
		all = append(all, s.Client)
	}
	return all
}

var headerKinds = []struct {
	name    string
	headers policy.Headers
}{
	{"first", policy.HeadersFirst}, {"until reply", policy.HeadersUntilReply}, {"every", policy.HeadersEvery},
	{"simple", policy.HeadersSimple},
}

// TestClientsAddressReachesTheServer plays every protocol through a proxy that sends headers. The server knows each
// player by its own address.
func TestClientsAddressReachesTheServer(t *testing.T) {
	for _, kind := range headerKinds {
		for _, member := range udpMembers(oneDialect) {
			for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
				t.Run(fmt.Sprint(kind.name, ", ", member.Spec().Name, ", mode ", mode), func(t *testing.T) {
					weather := simnet.Weather{Latency: 10 * time.Millisecond, Loss: 0.05}
					if kind.headers == policy.HeadersFirst {
						weather.Loss = 0 // a lost first datagram would lose the header for good
					}
					c := newChain(t, weather, member.Protocol, kind.headers, mode)
					c.servers[1].react = greets(c.servers[1].react)
					one, other := c.connect(codec.Hello{}), c.connect(codec.Hello{})
					if got := c.clients(); len(got) != 2 || got[0] != one.addr || got[1] != other.addr {
						t.Fatalf("the second proxy has sessions of %v, want of %v and %v", got, one.addr, other.addr)
					}
					c.Run(3 * time.Second)
					if one.gone() || other.gone() {
						t.Fatal("a session ended")
					}
					if kind.headers == policy.HeadersSimple {
						return // its magic number may open datagrams of other protocols
					}
					if n := c.second.relay.counters.Drops[stats.DropMalformed]; n != 0 {
						t.Errorf("%d malformed datagrams", n)
					}
				})
			}
		}
	}
}

// greets makes an R-Type server name its components. Without them no player joins its game.
func greets(react func(time.Time, *peer, *codec.Event)) func(time.Time, *peer, *codec.Event) {
	return func(now time.Time, p *peer, ev *codec.Event) {
		react(now, p, ev)
		if ev.Kind == codec.Asked {
			// docs/protocols/rtype/messages.md; other protocols treat it as a game's message.
			_ = p.conn.Send(now, codec.Message{Payload: append([]byte{0xf0, 2, 4, 0, 1, 4}, "Test\xff\xff"...)})
		}
	}
}

// TestWhichDatagramsHaveAHeader counts the datagrams with and without headers on the wire.
func TestWhichDatagramsHaveAHeader(t *testing.T) {
	for _, kind := range headerKinds {
		t.Run(kind.name, func(t *testing.T) {
			c := newChain(t, simnet.Weather{Latency: 300 * time.Millisecond}, raknet6(), kind.headers, policy.ModeTerminate)
			var headed, bare, afterReply int
			replied := false
			c.SetTap(func(from, to netip.AddrPort, datagram []byte) {
				if from == serverAddr && to.Addr() == listenerAddr.Addr() {
					c.After(300*time.Millisecond, func() { replied = true })
				}
				if to != serverAddr {
					return
				}
				h, _, err := proxyproto.Parse(datagram)
				switch {
				case err != nil:
					bare++
				case replied:
					afterReply++
					fallthrough
				default:
					headed++
				}
				if err == nil && h.Client != playerAddr(0) {
					t.Errorf("a header says %v", h.Client)
				}
			})
			c.connect(codec.Hello{})
			c.Run(2 * time.Second)
			switch kind.headers {
			case policy.HeadersFirst:
				if headed != 1 || bare < 5 {
					t.Errorf("%d with a header, %d without", headed, bare)
				}
			case policy.HeadersUntilReply:
				if headed < 2 || afterReply != 0 || bare < 5 {
					t.Errorf("%d with a header, %d of them after the first reply, %d without", headed, afterReply, bare)
				}
			default:
				if bare != 0 || headed < 5 {
					t.Errorf("%d with a header, %d without", headed, bare)
				}
			}
		})
	}
}

// TestPingsHaveHeaders asserts that questions for a server's text have headers if the server wants them.
func TestPingsHaveHeaders(t *testing.T) {
	for _, kind := range headerKinds {
		route := defaultRoute(raknet6())
		route.Upstream.Headers, route.Pings = kind.headers, Pings{Refresh: time.Second, Keep: time.Minute}
		w := newWorldWith(t, 1, simnet.Weather{}, raknet6(), route, func(s *Settings) { s.Listeners[0].Pong = new(Pong) })
		headed := 0
		w.SetTap(func(_, to netip.AddrPort, datagram []byte) {
			if _, _, err := proxyproto.Parse(datagram); err == nil && to == serverAddr {
				headed++
			}
		})
		w.Run(3500 * time.Millisecond)
		if headed != 4 {
			t.Errorf("%s: %d of 4 unanswered pings have a header", kind.name, headed)
		}
	}
}

// TestHeadersDoNotAllocate covers the path of an established session.
func TestHeadersDoNotAllocate(t *testing.T) {
	p := newPreamble(policy.HeadersEvery, playerAddr(0), listenerAddr)
	b := make([]byte, 0, codec.MaxDatagram)
	if n := allocs.PerRun(1000, func() {
		b = p.begin(b[:0])
		p.sent()
		p.heard(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	c := newChain(t, simnet.Weather{}, raknet6(), policy.HeadersEvery, policy.ModeTerminate)
	c.connect(codec.Hello{})
	l := c.second.relay.listeners[0]
	datagram := newPreamble(policy.HeadersEvery, playerAddr(0), listenerAddr).header
	if n := allocs.PerRun(1000, func() {
		if _, _, fault := l.proxies.unwrap(upstreamSocketAddr(0), datagram); fault.Drops {
			t.Fatal("a header was not taken")
		}
	}); n != 0 {
		t.Errorf("%v allocations to read one", n)
	}
}
