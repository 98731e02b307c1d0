package relay

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/enet"
	"tidegate/internal/a2s"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// sourceServer is a game server that answers server browsers, each after a challenge.
type sourceServer struct {
	name    string
	down    bool
	secret  bool // it keeps its rules to itself
	queries int  // that it has got
	out     []simDatagram
}

const sourceChallenge = 0x22d5a14b

var sourceAddr, otherSourceAddr = netip.MustParseAddrPort("10.1.0.7:27015"), netip.MustParseAddrPort("10.1.0.8:27015")

// answers returns the datagrams that answer a query. Rules have two parts.
func (s *sourceServer) answers(k a2s.Kind) []string {
	return [a2s.Kinds][]string{
		{"\xff\xff\xff\xffI\x11" + s.name}, {"\xff\xff\xff\xffD\x00"},
		{"\xfe\xff\xff\xff\x07\x00\x00\x00\x02\x00\xe0\x04\xff\xff\xff\xffE",
			"\xfe\xff\xff\xff\x07\x00\x00\x00\x02\x01\xe0\x04end"},
	}[k]
}

func (s *sourceServer) Receive(_ time.Time, from, to netip.AddrPort, datagram []byte) {
	if k, word, ok := a2s.ParseWord(datagram); ok && !s.down {
		s.queries++
		s.out = append(s.out, simDatagram{to, from, s.wordAnswer(k, string(word))})
		return
	}
	k, given, ok := a2s.ParseQuery(datagram)
	if !ok || s.down || s.secret && k == a2s.Rules {
		return
	}
	s.queries++
	if given != sourceChallenge {
		s.out = append(s.out, simDatagram{to, from, a2s.AppendChallenge(nil, sourceChallenge)})
		return
	}
	all := s.answers(k)
	slices.Reverse(all) // parts need not arrive in order
	for _, answer := range all {
		s.out = append(s.out, simDatagram{to, from, []byte(answer)})
	}
}

func (s *sourceServer) Advance(time.Time)      {}
func (s *sourceServer) NextTimeout() time.Time { return time.Time{} }

func (s *sourceServer) Transmit(_ time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(s.out) == 0 {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	d := s.out[0]
	s.out = s.out[1:]
	return append(b, d.bytes...), d.from, d.to, true
}

// queried is a world with a listener of any protocol before a server of Source's kind, and a server browser.
type queried struct {
	*world
	server, other *sourceServer
	heard         [][]byte // by the browser
}

func newQueried(t testing.TB, change func(s *Settings)) *queried {
	t.Helper()
	route := plainRoute(Any)
	route.Upstream.Servers = []upstream.Target{{Addr: sourceAddr}, {Addr: otherSourceAddr}}
	q := &queried{server: &sourceServer{name: "one"}, other: &sourceServer{name: "two"}}
	q.world = newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, Any, route, func(s *Settings) {
		s.Listeners[0].Queries = NewQueries(a2s.Source, [32]byte{1, 2, 3})
		if change != nil {
			change(s)
		}
	})
	q.Add(q.server, sourceAddr)
	q.Add(q.other, otherSourceAddr)
	q.Add(&browser{}, browserAddr)
	q.SetTap(func(_, to netip.AddrPort, datagram []byte) {
		if to == browserAddr {
			q.heard = append(q.heard, bytes.Clone(datagram))
		}
	})
	return q
}

// asks sends a query of the browser, and returns what it hears.
func (q *queried) asks(k a2s.Kind, given uint32) [][]byte {
	q.heard = nil
	q.Inject(0, browserAddr, listenerAddr, a2s.AppendQuery(nil, k, given))
	q.Run(100 * time.Millisecond)
	return q.heard
}

// warm lets the proxy ask its server. The first query goes to the server itself.
func (q *queried) warm() {
	q.t.Helper()
	q.Inject(0, firstBrowser, listenerAddr, a2s.AppendQuery(nil, a2s.Info, a2s.None))
	q.Run(5 * time.Second)
	if n := q.proxy.relay.table.Len(); n != 1 {
		q.t.Fatalf("%d sessions after the first query", n)
	}
}

var firstBrowser = netip.MustParseAddrPort("10.3.0.2:5000")

// TestQueriesAreAnsweredFromCache asserts that a browser gets a challenge and then the server's own answers, of one
// datagram or in parts. A query makes no session and asks no server.
func TestQueriesAreAnsweredFromCache(t *testing.T) {
	q := newQueried(t, nil)
	q.warm()
	sessions := q.proxy.relay.counters.Opened
	q.server.queries = 0
	for k := range a2s.Source.Last + 1 {
		heard := q.asks(k, a2s.None)
		if len(heard) != 1 {
			t.Fatalf("query %d: heard %q", k, heard)
		}
		given, ok := a2s.ParseChallenge(heard[0])
		if !ok {
			t.Fatalf("query %d: heard %q, want a challenge", k, heard)
		}
		if heard := q.asks(k, given^1); len(heard) != 1 || !bytes.Equal(heard[0], a2s.AppendChallenge(nil, given)) {
			t.Errorf("query %d with a wrong challenge: heard %q", k, heard)
		}
		heard = q.asks(k, given)
		var got []string
		for _, d := range heard {
			got = append(got, string(d))
		}
		if !slices.Equal(got, q.server.answers(k)) {
			t.Errorf("query %d: heard %q, want %q", k, got, q.server.answers(k))
		}
	}
	if q.proxy.relay.counters.Opened != sessions || q.server.queries > 6 {
		t.Errorf("%d sessions opened, %d queries at the server", q.proxy.relay.counters.Opened-sessions, q.server.queries)
	}
}

// TestQueriesFollowTheServer asserts that a new answer shows within a few seconds, that another server answers when the
// first is silent, and that no server is asked when no browser asks.
func TestQueriesFollowTheServer(t *testing.T) {
	q := newQueried(t, nil)
	q.warm()
	info := func() string {
		for _, d := range q.asks(a2s.Info, a2s.None) {
			if given, ok := a2s.ParseChallenge(d); ok {
				for _, d := range q.asks(a2s.Info, given) {
					return string(d)
				}
			}
		}
		return ""
	}
	q.server.name = "renamed"
	q.Run(3 * time.Second)
	if got := info(); !strings.HasSuffix(got, "renamed") {
		t.Errorf("after the change: %q", got)
	}
	q.server.down = true
	for range 8 {
		info()
		q.Run(2 * time.Second)
	}
	if got := info(); !strings.HasSuffix(got, "two") {
		t.Errorf("with a silent server: %q", got)
	}
	q.Run(queryWanted + 3*queryRefresh)
	q.other.queries = 0
	q.Run(time.Minute)
	if q.other.queries > 0 || q.proxy.relay.queriers[0].socket != nil {
		t.Errorf("%d queries without a browser", q.other.queries)
	}
}

// TestServerWithoutRules asserts that a server that answers only some queries stays the one that browsers see.
func TestServerWithoutRules(t *testing.T) {
	q := newQueried(t, nil)
	q.server.secret = true
	q.warm()
	for range 10 {
		q.asks(a2s.Info, a2s.None)
		q.Run(2 * time.Second)
	}
	if q.other.queries > 0 || q.server.queries < 10 {
		t.Errorf("%d queries at the server, %d at the other", q.server.queries, q.other.queries)
	}
}

// TestForgedQueriesAreNotAmplified floods the listener with queries in the name of a victim. It gets no more bytes than
// were sent, and the server nothing.
func TestForgedQueriesAreNotAmplified(t *testing.T) {
	q := newQueried(t, nil)
	q.warm()
	q.server.queries, q.heard = 0, nil
	sent := 0
	for i := range 1000 {
		d := a2s.AppendQuery(nil, a2s.Kind(i%3), uint32(i))
		sent += len(d)
		q.Inject(time.Duration(i)*time.Millisecond, browserAddr, listenerAddr, d)
	}
	q.Run(2 * time.Second)
	got := 0
	for _, d := range q.heard {
		got += len(d)
	}
	if got > sent || q.server.queries > 2*6 || q.proxy.relay.counters.Opened > 1 {
		t.Errorf("%d bytes for %d, %d queries at the server", got, sent, q.server.queries)
	}
}

// TestQueriesStayWithReload keeps the answers over a reload, and passes queries to the server where they are off.
func TestQueriesStayWithReload(t *testing.T) {
	q := newQueried(t, nil)
	q.warm()
	q.reload(func(s *Settings) { s.Listeners[0].Queries = NewQueries(a2s.Source, [32]byte{1, 2, 3}) })
	q.server.down = true
	if heard := q.asks(a2s.Info, a2s.None); len(heard) != 1 {
		t.Errorf("after a reload: heard %q", heard)
	}
	q.server.down = false
	q.reload(func(s *Settings) { s.Listeners[0].Queries = nil })
	heard := q.asks(a2s.Info, sourceChallenge)
	if len(heard) != 1 || !a2s.IsAnswer(heard[0], a2s.Info) || len(q.proxy.relay.queriers) > 0 {
		t.Errorf("switched off: heard %q", heard)
	}
}

// TestHostileServerAnswers sends odd answers of a server. None is published, and none is asked for again and again.
func TestHostileServerAnswers(t *testing.T) {
	q := newQueried(t, nil)
	q.warm()
	asker := q.proxy.relay.queriers[0]
	for range 3 {
		q.asks(a2s.Info, a2s.None)
		q.Run(time.Second)
	}
	asker.kind, asker.given = a2s.Rules, true
	dialed := q.proxy.relay.counters.Upstreams.Out
	for _, odd := range []string{
		"", "\xff\xff\xff\xff", "\xff\xff\xff\xffA\x01\x02\x03\x04", "\xfe\xff\xff\xff\x01\x00\x00\x00\x11\x00aa",
		"\xfe\xff\xff\xff\x01\x00\x00\x00\x00\x00aa", "\xfe\xff\xff\xff\x01\x00\x00\x00\x02\x02aa", "\xff\xff\xff\xffI",
	} {
		asker.answered(q.Now(), q.proxy.relay, []byte(odd))
	}
	if got := q.proxy.relay.counters.Upstreams.Out; got != dialed || len(asker.parts) > 0 || asker.kind != a2s.Rules {
		t.Errorf("%+v sent, parts %q, kind %d", got, asker.parts, asker.kind)
	}
}

// TestQueriesAllocateNothing answers queries, with a challenge and without.
func TestQueriesAllocateNothing(t *testing.T) {
	q := newQueried(t, func(s *Settings) { s.Answers = ratelimit.Rates{} })
	q.warm()
	relay, l := q.proxy.relay, q.proxy.relay.listeners[0]
	given := l.queries.challenge(q.Now(), browserAddr)
	socket := q.proxy.sockets[listenerAddr]
	first, second := a2s.AppendQuery(nil, a2s.Info, a2s.None), a2s.AppendQuery(nil, a2s.Info, given)
	q.proxy.out = make([]simDatagram, 0, 4096)
	relay.sockets.Sockets = silentSockets{relay.sockets.Sockets}
	step := func() {
		relay.Receive(q.Now(), socket, browserAddr, first)
		relay.Receive(q.Now(), socket, browserAddr, second)
	}
	step()
	if n := allocs.PerRun(100, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// silentSockets send nothing.
type silentSockets struct{ Sockets }

func (silentSockets) Send(netio.Socket, netip.AddrPort, []byte) {}

func (s *sourceServer) wordAnswer(k a2s.Kind, word string) []byte {
	if k == a2s.GetInfo {
		return []byte("\xff\xff\xff\xffinfoResponse\n\\clients\\3\\challenge\\" + word + "\\hostname\\" + s.name)
	}
	return []byte("\xff\xff\xff\xffstatusResponse\n\\sv_hostname\\" + s.name + "\n0 1 \"Ada\"\n")
}

// TestWordsAreAnsweredFromCache: a listener of ENet answers getinfo and getstatus as its server does, each with the
// challenge of its own client. A query opens no session, and floods reach no server. An answer that is larger than the
// query is taken from the listener's budget.
func TestWordsAreAnsweredFromCache(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
		protocol := enet.New(enet.Options{Seed: [32]byte{1}})
		route := defaultRoute(protocol)
		route.Mode, route.Upstream.Servers = mode, []upstream.Target{{Addr: sourceAddr}, {Addr: otherSourceAddr}}
		q := &queried{server: &sourceServer{name: "one"}, other: &sourceServer{name: "two"}}
		q.world = newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, protocol, route, func(s *Settings) {
			s.Listeners[0].Queries = NewQueries(a2s.Quake, [32]byte{1})
			s.Answers = ratelimit.Rates{Overall: 50, Network: 50}
		})
		q.Add(q.server, sourceAddr)
		q.Add(q.other, otherSourceAddr)
		q.Add(&browser{}, browserAddr)
		q.SetTap(func(_, to netip.AddrPort, datagram []byte) {
			if to == browserAddr {
				q.heard = append(q.heard, bytes.Clone(datagram))
			}
		})
		ask := func(text string) string {
			q.heard = nil
			q.Inject(0, browserAddr, listenerAddr, []byte("\xff\xff\xff\xff"+text))
			q.Run(50 * time.Millisecond)
			return string(bytes.Join(q.heard, nil))
		}
		ask("getinfo xxx")
		if q.drops(stats.DropQuery) != 1 {
			t.Errorf("%v: the first query is counted %d times", mode, q.drops(stats.DropQuery))
		}
		q.Run(3 * time.Second)
		for _, word := range []string{"abc", "a-much-longer-one", ""} {
			if got, want := ask("getinfo "+word), string(q.server.wordAnswer(a2s.GetInfo, word)); got != want {
				t.Errorf("%v: %q, want %q", mode, got, want)
			}
		}
		if got, want := ask("getstatus x"), string(q.server.wordAnswer(a2s.GetStatus, "x")); got != want {
			t.Errorf("%v: %q, want %q", mode, got, want)
		}
		q.server.queries, q.heard = 0, nil
		for i := range 1000 {
			q.Inject(time.Duration(i)*time.Millisecond, browserAddr, listenerAddr, []byte("\xff\xff\xff\xffgetinfo xxx"))
		}
		q.Run(2 * time.Second)
		if len(q.heard) > 100 || len(q.heard) == 0 || q.server.queries > 6 || q.proxy.relay.counters.Opened > 0 ||
			q.drops(stats.DropPingBudget) < 900 {
			t.Errorf("%v: 1,000 queries get %d answers, %d reach the server, %d sessions, %d beyond the budget", mode,
				len(q.heard), q.server.queries, q.proxy.relay.counters.Opened, q.drops(stats.DropPingBudget))
		}
		if got := ask("rcon secret status"); got != "" {
			t.Errorf("%v: another word is answered with %q", mode, got)
		}
		if mode == policy.ModeTerminate { // a player whose old session is still here asks before it connects again
			connect, _ := protocol.Dial(q.Now(), netip.AddrPort{}, codec.Hello{}).Transmit(q.Now(), nil)
			q.Inject(0, browserAddr, listenerAddr, connect)
			q.Run(50 * time.Millisecond)
			if got := ask("getinfo again"); q.proxy.relay.Len() != 1 || !strings.Contains(got, "again") {
				t.Errorf("a player with one of %d sessions gets %q", q.proxy.relay.Len(), got)
			}
		}
		q.server.down = true
		for range 10 {
			ask("getinfo xxx")
			q.Run(2 * time.Second)
		}
		if got := ask("getinfo z"); !strings.HasSuffix(got, "two") {
			t.Errorf("%v: with a silent server: %q", mode, got)
		}
	}
}
