package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// relayedList is newListed with a relay to servers of any protocol. They keep their own GUID and dialect.
func relayedList(t testing.TB, change func(r *Route)) *listed {
	return newListed(t, func(r *Route) {
		r.Mode, r.Upstream.Protocol = policy.ModeRelay, Any
		if change != nil {
			change(r)
		}
	})
}

// TestListPingsMakeNoRelayedSession asserts that a relay answers server lists as the server does, with its GUID and
// in its dialect. Only the ports differ. A question opens no session.
func TestListPingsMakeNoRelayedSession(t *testing.T) {
	for _, sized := range []bool{false, true} {
		l := relayedList(t, nil)
		l.servers[0].protocol = raknet.New(raknet.Options{GUID: 4711, Pong: []byte(firstText), SizedPong: sized})
		l.Run(time.Second)
		var answer raknet.Pong
		size := 0
		l.SetTap(func(_, to netip.AddrPort, datagram []byte) {
			if to == browserAddr {
				answer, _ = raknet.ParsePong(datagram)
				size = len(datagram)
			}
		})
		for range 3 {
			l.want("relayed", "MCPE;First;844;1.21.111;3;20;1;World;Survival;1;7777;7777;")
		}
		data := len(answer.Data)
		if sized {
			data += 2
		}
		if answer.GUID != 4711 || answer.Time != 1 || size != 33+data {
			t.Errorf("sized %v: the answer is of %d bytes, by %d at %d", sized, size, answer.GUID, answer.Time)
		}
		relay := l.proxy.relay
		if relay.table.Len() != 0 || relay.counters.Opened != 0 || l.proxy.dialed != 1 {
			t.Errorf("%d sessions opened, %d sockets dialed; want none, and the one that asks", relay.counters.Opened,
				l.proxy.dialed)
		}
	}
}

// TestRelayedListIsSilent asserts that a relay is silent without a server's text, as a server would be. The operator
// can set a text.
func TestRelayedListIsSilent(t *testing.T) {
	l := relayedList(t, nil)
	l.servers[0].down = true
	ping := func() {
		l.Inject(0, browserAddr, listenerAddr, raknet.AppendPing(nil, 1, 2))
		l.Run(100 * time.Millisecond)
	}
	ping()
	opened, unanswered := l.proxy.relay.counters.Opened, l.drops(stats.DropUnanswered)
	if len(l.browser.texts) > 0 || opened > 0 || unanswered != 1 {
		t.Errorf("answered %q, %d sessions, %d counted as unanswered", l.browser.texts, opened, unanswered)
	}
	l.servers[0].down = false
	l.says(0, "")
	l.Run(2 * time.Second)
	l.want("a server without a text", "")
	route := plainRoute(Any)
	w := newWorld(t, 1, simnet.Weather{}, raknet.New(raknet.Options{Pong: []byte("ours")}), route)
	own := &listed{world: w}
	own.Add(&own.browser, browserAddr)
	own.want("a text of our own", "ours")
	if w.proxy.relay.counters.Opened > 0 || w.proxy.dialed > 0 {
		t.Errorf("%d sessions opened, %d sockets dialed", w.proxy.relay.counters.Opened, w.proxy.dialed)
	}
}

// TestRelayedPlayersStillCome asserts that a client that has asked for the list can join. All datagrams of its
// session pass unchanged, even pings.
func TestRelayedPlayersStillCome(t *testing.T) {
	l := relayedList(t, nil)
	l.Run(time.Second)
	l.want("at first", "MCPE;First;844;1.21.111;3;20;1;World;Survival;1;7777;7777;")
	p := l.connect(codec.Hello{Identity: 7})
	if got := l.proxy.relay.table.Len(); got != 1 {
		t.Fatalf("%d sessions", got)
	}
	l.Inject(0, p.addr, listenerAddr, raknet.AppendPing(nil, 1, 2))
	l.Run(100 * time.Millisecond)
	if got := l.proxy.relay.table.Len(); got != 1 || p.gone() {
		t.Errorf("%d sessions after a ping of the player's; gone: %v", got, p.gone())
	}
}

// TestForgedPingsThroughARelay asserts that pings from 100,000 sources do not reach the servers. The answers stay
// within the listener's budget.
func TestForgedPingsThroughARelay(t *testing.T) {
	const budget, sources = 50, 100_000
	pong := new(Pong)
	route := defaultRoute(Any)
	route.Mode, route.Pings = policy.ModeRelay, Pings{Refresh: 2 * time.Second, Keep: time.Minute}
	w := newWorldWith(t, 1, simnet.Weather{}, raknet.New(raknet.Options{PongText: pong.Text}), route, func(s *Settings) {
		s.Listeners[0].Pong = pong
		s.Answers.Overall, s.Answers.Network = budget, budget
	})
	w.servers[0].protocol = raknet.New(raknet.Options{Pong: []byte(firstText)})
	w.Run(time.Second)
	asked, answered := 0, 0
	w.SetTap(func(from, to netip.AddrPort, _ []byte) {
		if to == serverAddr {
			asked++
		}
		if from == listenerAddr {
			answered++
		}
	})
	ping := raknet.AppendPing(nil, 1, 2)
	for i := range sources {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 1}), 5000)
		w.proxy.relay.Receive(w.Now().Add(time.Duration(i)*10*time.Microsecond), w.proxy.sockets[listenerAddr], from, ping)
	}
	w.Run(time.Second)
	if asked > 1 || answered > 2*budget+1 || w.proxy.relay.table.Len() > 0 || w.proxy.dialed != 1 {
		t.Errorf("of %d pings %d went to the server and %d were answered; %d sessions, %d sockets",
			sources, asked, answered, w.proxy.relay.table.Len(), w.proxy.dialed)
	}
}

// TestRelayedTextsAreJoined asserts that several servers behind a relay are listed as one, as with other routes.
func TestRelayedTextsAreJoined(t *testing.T) {
	l := relayedList(t, func(r *Route) {
		r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
		r.Pings.Name = "Tide"
	})
	l.Run(time.Second)
	l.want("both there", "MCPE;Tide;844;1.21.111;7;50;1;World;Survival;1;7777;7777;")
}

func TestRelayedPingsDoNotAllocate(t *testing.T) {
	l := relayedList(t, nil)
	l.Run(time.Second)
	ping, now := raknet.AppendPing(nil, 1, 2), l.Now()
	if n := allocs.PerRun(100, func() {
		now = now.Add(time.Second)
		l.proxy.out = l.proxy.out[:0]
		l.proxy.relay.Receive(now, l.proxy.sockets[listenerAddr], browserAddr, ping)
	}); n > 1 { // the simulated socket makes one copy
		t.Errorf("%v allocations a ping", n)
	}
}
