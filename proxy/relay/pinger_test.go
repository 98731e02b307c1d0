package relay

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// browser is a player's server list. It records the answers that it gets without a session.
type browser struct{ texts []string }

var browserAddr = netip.MustParseAddrPort("10.3.0.1:5000")

func (b *browser) Receive(_ time.Time, _, _ netip.AddrPort, datagram []byte) {
	pong, err := raknet.ParsePong(datagram)
	if err != nil {
		b.texts = append(b.texts, err.Error())
		return
	}
	b.texts = append(b.texts, string(pong.Data))
}

func (b *browser) Advance(time.Time)      {}
func (b *browser) NextTimeout() time.Time { return time.Time{} }

func (b *browser) Transmit(_ time.Time, d []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	return d, netip.AddrPort{}, netip.AddrPort{}, false
}

// listed is a world with a listener that shows its servers' texts, and a server list.
type listed struct {
	*world
	browser browser
	pong    *Pong
}

const (
	firstText  = "MCPE;First;844;1.21.111;3;20;1;World;Survival;1;19132;19133;"
	secondText = "MCPE;Second;844;1.21.111;4;30;2;World;Survival;1;19132;19133;"
)

// newListed makes a listed world. Its first server answers with firstText. The second one answers with secondText,
// and only some routes have it.
func newListed(t testing.TB, change func(r *Route)) *listed {
	l := &listed{pong: new(Pong)}
	route := defaultRoute(raknet6())
	route.Pings = Pings{Refresh: 2 * time.Second, Keep: time.Minute}
	if change != nil {
		change(route)
	}
	players := raknet.New(raknet.Options{Pong: []byte("configured"), PongText: l.pong.Text})
	l.world = newWorldWith(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, players, route, func(s *Settings) {
		s.Listeners[0].Pong = l.pong
	})
	l.says(0, firstText)
	l.says(1, secondText)
	l.Add(&l.browser, browserAddr)
	return l
}

// says gives a server another text.
func (l *listed) says(server int, text string) {
	l.servers[server].protocol = raknet.New(raknet.Options{Pong: []byte(text)})
}

// want asks the listener for its text.
func (l *listed) want(when, text string) {
	l.t.Helper()
	before := len(l.browser.texts)
	l.Inject(0, browserAddr, listenerAddr, raknet.AppendPing(nil, 1, 2))
	l.Run(100 * time.Millisecond)
	if got := l.browser.texts[before:]; len(got) != 1 || got[0] != text {
		l.t.Errorf("%s: answered %q, want %q", when, got, text)
	}
}

func TestUpstreamTextIsGivenAway(t *testing.T) {
	l := newListed(t, nil)
	l.want("before the server has answered", "configured")
	l.want("after", "MCPE;First;844;1.21.111;3;20;1;World;Survival;1;7777;7777;")
	l.says(0, "Race;Friday;3")
	l.Run(2 * time.Second)
	l.want("a refresh after it changed", "Race;Friday;3")
}

func TestTextsOfSeveralServersAreJoined(t *testing.T) {
	l := newListed(t, func(r *Route) {
		r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
		r.Pings.Name = "Tide"
	})
	l.Run(time.Second)
	l.want("both there", "MCPE;Tide;844;1.21.111;7;50;1;World;Survival;1;7777;7777;")
	l.servers[0].down = true
	l.Run(time.Minute + 2*time.Second)
	l.want("a minute and a refresh after the first fell silent",
		"MCPE;Tide;844;1.21.111;4;30;2;World;Survival;1;7777;7777;")
	l.servers[0].down = false
	l.says(0, "")
	l.Run(2 * time.Second)
	l.want("the first has nothing to say", "MCPE;Tide;844;1.21.111;4;30;2;World;Survival;1;7777;7777;")
}

func TestTextIsKeptWhileTheServerRestarts(t *testing.T) {
	l := newListed(t, nil)
	const text = "MCPE;First;844;1.21.111;3;20;1;World;Survival;1;7777;7777;"
	l.Run(time.Second)
	l.servers[0].down = true
	l.Run(57 * time.Second)
	l.want("just before it is kept no more", text)
	l.Run(4 * time.Second)
	l.want("after that", "configured")
	l.servers[0].down = false
	l.Run(2 * time.Second)
	l.want("back", text)
}

// TestListIsSilentWithoutAServer asserts that no server list shows a server that is away, if no text is configured. A
// server without a text is listed.
func TestListIsSilentWithoutAServer(t *testing.T) {
	l := newListed(t, func(r *Route) { r.Pings.Keep = 10 * time.Second })
	l.proxy.relay.listeners[0].entries[0].protocol = raknet.New(raknet.Options{PongText: l.pong.Text})
	silent := func(when string) {
		t.Helper()
		before := len(l.browser.texts)
		l.Inject(0, browserAddr, listenerAddr, raknet.AppendPing(nil, 1, 2))
		l.Run(100 * time.Millisecond)
		if got := l.browser.texts[before:]; len(got) > 0 {
			t.Errorf("%s: answered %q", when, got)
		}
	}
	silent("before the server has answered")
	l.Run(time.Second)
	l.want("after", "MCPE;First;844;1.21.111;3;20;1;World;Survival;1;7777;7777;")
	l.servers[0].down = true
	l.Run(13 * time.Second)
	silent("away")
	l.servers[0].down = false
	l.says(0, "")
	l.Run(2 * time.Second)
	l.want("back, without a text", "")
}

// TestStrangersDoNotSpeakForTheServer asserts that a forged pong without the right token changes nothing.
func TestStrangersDoNotSpeakForTheServer(t *testing.T) {
	l := newListed(t, nil)
	l.Run(time.Second)
	said := l.pong.Text()
	p := l.proxy.relay.pingers[0]
	forged := raknet.New(raknet.Options{Pong: []byte("MCPE;evil")})
	for _, c := range []struct {
		token uint64
		want  string
	}{{p.token ^ 1, string(said)}, {p.token, "MCPE;evil"}} {
		_, pong, err := forged.Accept(l.Now(), browserAddr, raknet.AppendPing(nil, c.token, 3), nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(pong) - len("MCPE;evil") {
			p.servers[0].answered(l.Now(), l.proxy.relay, pong[:n])
		}
		p.servers[0].answered(l.Now(), l.proxy.relay, pong)
		if got := string(l.pong.Text()); got != c.want {
			t.Errorf("token %#x of %#x: text %q, want %q", c.token, p.token, got, c.want)
		}
	}
	if l.drops(stats.DropUnexpected) != 1 || l.drops(stats.DropMalformed) != 2*33 {
		t.Errorf("counted %d unexpected, %d malformed", l.drops(stats.DropUnexpected), l.drops(stats.DropMalformed))
	}
}

func TestServerWithoutASocketIsAskedLater(t *testing.T) {
	l := newListed(t, nil)
	l.proxy.noDial = errors.New("no more files")
	l.Run(time.Second)
	l.proxy.noDial = nil
	if l.drops(stats.DropSocket) != 1 || l.pong.Text() != nil {
		t.Errorf("counted %d, text %q", l.drops(stats.DropSocket), l.pong.Text())
	}
	l.Run(2 * time.Second)
	if l.pong.Text() == nil || l.proxy.dialed != 1 {
		t.Errorf("no text by %d sockets", l.proxy.dialed)
	}
}

// TestSilentServerIsAskedFromAnotherPort asserts that a stale entry of a NAT, which leads the socket's port to nowhere,
// does not hide a server for ever.
func TestSilentServerIsAskedFromAnotherPort(t *testing.T) {
	l := newListed(t, nil)
	l.Run(10 * time.Second)
	if l.pong.Text() == nil || l.proxy.dialed != 1 {
		t.Fatalf("no text, or by %d sockets", l.proxy.dialed)
	}
	l.SetPath(upstreamSocketAddr(0), serverAddr, simnet.Weather{Loss: 1})
	l.Run(30 * time.Second)
	if l.pong.Text() == nil || l.proxy.dialed != 2 || !l.proxy.sockets[upstreamSocketAddr(0)].closed {
		t.Errorf("%q by %d sockets", l.pong.Text(), l.proxy.dialed)
	}
}

// TestWhoAsks asserts that only the first Relay asks. It asks only if a listener wants the text and the upstream can
// answer. During a drain it asks no more.
func TestWhoAsks(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(s *Settings, o *Options)
		asks   int
	}{
		{"as it should be", func(*Settings, *Options) {}, 1},
		{"the second Relay", func(_ *Settings, o *Options) { o.Shard = 1 }, 0},
		{"no listener wants it", func(s *Settings, _ *Options) { s.Listeners[0].Pong = nil }, 0},
		{"no refresh", func(s *Settings, _ *Options) { s.Listeners[0].Route.Pings.Refresh = 0 }, 0},
		{"another protocol", func(s *Settings, _ *Options) { s.Listeners[0].Route.Upstream.Protocol = riptide22() }, 0},
		{"a stream", func(s *Settings, _ *Options) { s.Listeners[0].Route.Upstream.Transport.Stream = true }, 0},
	} {
		l := newListed(t, nil)
		o := Options{Shards: 2, Log: zerolog.Nop()}
		c.change(l.settings, &o)
		node := &relayNode{sockets: make(map[netip.AddrPort]*simSocket)}
		relay := New(l.settings, o, node, l.Now())
		relay.Advance(l.Now())
		if len(node.out) != c.asks || relay.NextTimeout().IsZero() != (c.asks == 0) {
			t.Errorf("%s: %d datagrams, next at %v", c.what, len(node.out), relay.NextTimeout())
		}
		relay.Drain(l.Now())
		relay.Advance(l.Now().Add(time.Hour))
		if len(node.out) != c.asks || !relay.NextTimeout().IsZero() {
			t.Errorf("%s: asks on after the goodbye", c.what)
		}
	}
}

// sink is Sockets that count the datagrams to strangers.
type sink struct {
	*relayNode
	datagrams, bytes int
}

func (s *sink) Send(_ netio.Socket, _ netip.AddrPort, datagram []byte) {
	s.datagrams++
	s.bytes += len(datagram)
}

func TestPingsDoNotAllocate(t *testing.T) {
	l := newListed(t, nil)
	l.Run(time.Second)
	relay, listenerSocket := l.proxy.relay, l.proxy.sockets[listenerAddr]
	relay.sockets.Sockets = &sink{relayNode: l.proxy}
	p := relay.pingers[0]
	ping, now := raknet.AppendPing(nil, 1, 2), l.Now()
	_, pong, _ := l.servers[0].protocol.Accept(now, browserAddr, raknet.AppendPing(nil, p.token, 3), nil)
	before := l.pong.Text()
	if n := allocs.PerRun(1000, func() {
		now = now.Add(2 * time.Second)
		relay.Advance(now)
		relay.Receive(now, p.servers[0].socket, serverAddr, pong)
		relay.Receive(now, listenerSocket, browserAddr, ping)
	}); n != 0 {
		t.Errorf("%v allocations a refresh and a ping", n)
	}
	if sent := relay.sockets.Sockets.(*sink).datagrams; sent != 2*1001 || !bytes.Equal(l.pong.Text(), before) {
		t.Errorf("%d datagrams sent, text %q", sent, l.pong.Text())
	}
}

// TestForgedPingsAreNotWorthIt sends pings from 100,000 sources, and from one forged source. Tidegate sends no more
// than its budget, and players can still play.
func TestForgedPingsAreNotWorthIt(t *testing.T) {
	for _, c := range []struct {
		what string
		from func(i int) netip.AddrPort
		most int // answers in a second
	}{
		{"100,000 sources", func(i int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 1}), 4000)
		}, 2 * 2000},
		{"one victim", func(i int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), uint16(1+i%60000))
		}, 2 * 20},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorldWith(t, 1, simnet.Weather{}, raknet.New(raknet.Options{Pong: make([]byte, 400)}),
				defaultRoute(raknet6()), func(s *Settings) {
					s.Answers.Overall, s.Answers.Network = 2000, 20
				})
			relay, victims := w.proxy.relay, &sink{relayNode: w.proxy}
			relay.sockets.Sockets = victims
			ping := raknet.AppendPing(nil, 1, 2)
			const pings = 100_000
			for i := range pings {
				relay.Receive(w.Now().Add(time.Duration(i)*10*time.Microsecond), w.proxy.sockets[listenerAddr], c.from(i), ping)
			}
			if victims.datagrams > c.most || victims.datagrams < c.most*9/10 || victims.bytes != victims.datagrams*433 {
				t.Errorf("%d answers of %d bytes together, want up to %d of 433", victims.datagrams, victims.bytes, c.most)
			}
			if got := w.drops(stats.DropPingBudget); got != uint64(pings-victims.datagrams) {
				t.Errorf("counted %d, want %d", got, pings-victims.datagrams)
			}
			relay.sockets.Sockets = w.proxy
			w.connect(codec.Hello{})
		})
	}
}

// TestReloadWaitsForServerTexts reloads while a server answers, and while it is away for less than its text counts.
func TestReloadWaitsForServerTexts(t *testing.T) {
	l := newListed(t, func(r *Route) { r.Pings.Keep = 10 * time.Second })
	l.Run(time.Second)
	settings := *l.proxy.relay.settings
	settings.Listeners = slices.Clone(settings.Listeners)
	for _, down := range []bool{false, true} {
		next := new(Pong)
		settings.Listeners[0].Pong = next
		l.servers[0].down = down
		l.proxy.relay.Reload(l.Now(), &settings, nil)
		for range 40 {
			if l.Run(5 * time.Millisecond); next.Text() == nil {
				t.Fatalf("server down %v: the text is gone after a reload", down)
			}
		}
		if l.Run(11 * time.Second); down != (next.Text() == nil) {
			t.Errorf("server down %v: the text is %q at last", down, next.Text())
		}
	}
}
