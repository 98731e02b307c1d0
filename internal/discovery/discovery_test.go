package discovery

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/rs/zerolog"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/internal/upstream"
)

// zone is a name server on a real socket. Its records can change.
type zone struct {
	addr string
	news chan struct{} // readable after a query

	mu      sync.Mutex
	records []dns.RR
	code    int
	asked   int
}

func newZone(t *testing.T, records ...string) *zone {
	t.Helper()
	at, err := freeport.Find(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{addr: at.String(), news: make(chan struct{}, 1)}
	z.set(t, records...)
	for _, server := range []*dns.Server{{PacketConn: conn, Handler: z}, {Listener: listener, Handler: z}} {
		go func() { _ = server.ActivateAndServe() }()
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return z
}

func (z *zone) set(t *testing.T, records ...string) {
	t.Helper()
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records = nil
	for _, text := range records {
		r, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		z.records = append(z.records, r)
	}
}

func (z *zone) fail(code int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.code = code
}

func (z *zone) questions() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked
}

// ServeDNS answers with the records of the requested name and type.
func (z *zone) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	select {
	case z.news <- struct{}{}:
	default: // already readable
	}
	answer := new(dns.Msg).SetRcode(question, z.code)
	for _, r := range z.records {
		if q := question.Question[0]; r.Header().Name == q.Name && r.Header().Rrtype == q.Qtype && z.code == 0 {
			answer.Answer = append(answer.Answer, r)
		}
	}
	if w.LocalAddr().Network() == "udp" {
		answer.Truncate(1232)
	}
	_ = w.WriteMsg(answer)
}

// watchOf runs Watch during the test and returns its results.
func watchOf(t *testing.T, sources ...Source) <-chan []upstream.Target {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	found := make(chan []upstream.Target, 16)
	Watch(ctx, sources, zerolog.Nop(), func(list []upstream.Target) { found <- list })
	return found
}

func want(t *testing.T, found <-chan []upstream.Target, list ...upstream.Target) {
	t.Helper()
	select {
	case got := <-found:
		if !slices.Equal(got, list) {
			t.Fatalf("found %v, want %v", got, list)
		}
	case <-time.After(await.Patience):
		t.Fatalf("nothing was found, want %v", list)
	}
}

func target(addr string, weight int) upstream.Target {
	return upstream.Target{Addr: netip.MustParseAddrPort(addr), Weight: weight}
}

// impatient makes a source look again soon.
func impatient(s Source) Source {
	client := newClient(Lookup{})
	switch s := s.(type) {
	case *host:
		client = s.client
	case *service:
		client = s.client
	}
	client.minTTL, client.retryAfter = 50*time.Millisecond, 50*time.Millisecond
	return s
}

// TestHost checks addresses of both families, a change, and failures that change nothing.
func TestHost(t *testing.T) {
	z := newZone(t, "game.test. 0 A 192.0.2.2", "game.test. 0 A 192.0.2.1", "game.test. 0 AAAA 2001:db8::1")
	found := watchOf(t, impatient(Host("game.test", 7777, Lookup{Resolver: z.addr})))
	want(t, found, target("192.0.2.1:7777", 1), target("192.0.2.2:7777", 1), target("[2001:db8::1]:7777", 1))
	for _, code := range []int{dns.RcodeServerFailure, dns.RcodeNameError} {
		z.fail(code)
		before := z.questions()
		await.News(t, "asked again", z.news, func() bool { return z.questions() >= before+4 })
	}
	z.fail(dns.RcodeSuccess)
	z.set(t, "game.test. 0 A 192.0.2.3")
	want(t, found, target("192.0.2.3:7777", 1))
}

// TestAnswersCount checks that answers expire by their TTL, within bounds.
func TestAnswersCount(t *testing.T) {
	z := newZone(t, "game.test. 3600 A 192.0.2.1", "other.test. 30 A 192.0.2.1")
	client := newClient(Lookup{Resolver: z.addr})
	for name, ttl := range map[string]time.Duration{"game.test": maxTTL, "other.test": 30 * time.Second} {
		if _, got, err := client.ask(t.Context(), name, dns.TypeA); err != nil || got != ttl {
			t.Errorf("%s counts for %v, %v; want %v", name, got, err, ttl)
		}
	}
	if _, _, err := client.ask(t.Context(), "nobody.test", dns.TypeA); err == nil {
		t.Error("no error for a name without records")
	}
}

// TestTroubleAsksAgain asserts that a name is looked up again while its server is in trouble, also with a long TTL.
func TestTroubleAsksAgain(t *testing.T) {
	z := newZone(t, "game.test. 600 A 192.0.2.1")
	var troubled atomic.Bool
	found := watchOf(t, impatient(Host("game.test", 7777, Lookup{Resolver: z.addr, Troubled: troubled.Load})))
	want(t, found, target("192.0.2.1:7777", 1))
	z.set(t, "game.test. 600 A 192.0.2.2")
	before := z.questions()
	troubled.Store(true)
	want(t, found, target("192.0.2.2:7777", 1))
	await.News(t, "asked again and again", z.news, func() bool { return z.questions() >= before+6 })
}

// TestRefresh asserts that the longest time between queries is chosen by the operator.
func TestRefresh(t *testing.T) {
	z := newZone(t, "game.test. 600 A 192.0.2.1")
	watchOf(t, impatient(Host("game.test", 7777, Lookup{Resolver: z.addr, Refresh: 100 * time.Millisecond})))
	await.News(t, "asked again", z.news, func() bool { return z.questions() >= 6 })
}

func TestService(t *testing.T) {
	z := newZone(t,
		"_game._udp.test. 0 SRV 10 3 7777 one.test.", "_game._udp.test. 0 SRV 10 0 7778 two.test.",
		"_game._udp.test. 0 SRV 20 1 7779 spare.test.", "one.test. 0 A 192.0.2.1", "two.test. 0 AAAA 2001:db8::2")
	found := watchOf(t, impatient(Service("_game._udp.test", Lookup{Resolver: z.addr})))
	want(t, found, target("192.0.2.1:7777", 3), target("[2001:db8::2]:7778", 1))
	z.set(t, "_game._udp.test. 0 SRV 20 1 7779 spare.test.", "spare.test. 0 A 192.0.2.9")
	want(t, found, target("192.0.2.9:7779", 1))
}

// TestWrongAnswers asserts that an answer must be as right as a file. Otherwise the last result stays.
func TestWrongAnswers(t *testing.T) {
	srv := func(port int) string { return fmt.Sprintf("_game._udp.test. 0 SRV 1 1 %d a.test.", port) }
	var many []string
	for i := range 6 {
		many = append(many, srv(7777+i))
	}
	for i := range 2000 {
		many = append(many, fmt.Sprintf("a.test. 0 A 10.0.%d.%d", i>>8, i&255))
	}
	z := newZone(t)
	for want, records := range map[string][]string{
		"a.test.: 192.0.2.1:0 is no address of a game server":  {srv(0), "a.test. 0 A 192.0.2.1"},
		"a.test.: 0.0.0.0:7777 is no address of a game server": {srv(7777), "a.test. 0 A 0.0.0.0"},
		"a.test.: [::]:7777 is no address of a game server":    {srv(7777), "a.test. 0 AAAA ::"},
		"more than 10000 servers":                              many,
	} {
		z.set(t, records...)
		source := Service("_game._udp.test", Lookup{Resolver: z.addr}).(*service)
		if got, _, err := source.find(t.Context()); err == nil || err.Error() != want || len(got) > 0 {
			t.Errorf("%d servers, %v; want %s", len(got), err, want)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.1:1\n")
	found := watchOf(t, File(path))
	want(t, found, target("192.0.2.1:1", 1))
	write("192.0.2.1:1\n# the new one\n[2001:db8::1]:2 weight=5 max_sessions=10 # big\n")
	bounded := upstream.Target{Addr: netip.MustParseAddrPort("[2001:db8::1]:2"), Weight: 5, MaxSessions: 10}
	want(t, found, target("192.0.2.1:1", 1), bounded)
	write("192.0.2.1:1\nnonsense\n")
	write("192.0.2.3:3\n")
	want(t, found, target("192.0.2.3:3", 1))
}

// TestSourcesJoin checks that one source's servers stay while another source's change.
func TestSourcesJoin(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	for path, text := range map[string]string{one: "192.0.2.1:1", other: "192.0.2.2:2"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := watchOf(t, File(one), File(other), File(filepath.Join(dir, "nobody's")))
	<-found
	want(t, found, target("192.0.2.1:1", 1), target("192.0.2.2:2", 1))
	if err := os.WriteFile(one, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, found, target("192.0.2.2:2", 1))
}

func TestParseFile(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"a:1", `line 1: "a:1": want ip:port of a game server`},
		{"# x\n\n0.0.0.0:1", `line 3: "0.0.0.0:1": want ip:port of a game server`},
		{"1.2.3.4:0", `line 1: "1.2.3.4:0": want ip:port of a game server`},
		{"1.2.3.4:1 weight=0", `line 1: "weight=0": want weight=N, 1 to 1000, or max_sessions=N`},
		{"1.2.3.4:1 weigth=1", `line 1: "weigth=1": want weight=N, 1 to 1000, or max_sessions=N`},
		{"1.2.3.4:1 max_sessions=-1", `line 1: "max_sessions=-1": want weight=N, 1 to 1000, or max_sessions=N`},
		{strings.Repeat("1.2.3.4:1\n", maxServers+1), "line 10001: more than 10000 servers"},
		{strings.Repeat("x", 100_000), "line 1: bufio.Scanner: token too long"},
	} {
		if _, err := ParseFile(strings.NewReader(row.text)); err == nil || err.Error() != row.want {
			t.Errorf("%.40q: %v, want %s", row.text, err, row.want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add("192.0.2.1:1 weight=3 max_sessions=4 # x\n\n[::1]:2\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseFile(strings.NewReader(text))
		for _, s := range list {
			if err != nil || s.Addr.Port() == 0 || s.Weight < 1 || s.MaxSessions < 0 {
				t.Fatalf("%+v, %v", s, err)
			}
		}
	})
}

// TestNewTroubleAsksAtOnce asserts that a name is looked up when its server falls into trouble, however young the last
// answer is. Trouble that goes on waits for the shortest lifetime of an answer.
func TestNewTroubleAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var troubled atomic.Bool
		c := newClient(Lookup{Troubled: troubled.Load})
		began := time.Now()
		time.AfterFunc(1200*time.Millisecond, func() { troubled.Store(true) })
		for _, want := range []time.Duration{1500 * time.Millisecond, 6500 * time.Millisecond} {
			if c.await(t.Context(), maxTTL); time.Since(began) != want {
				t.Errorf("asks after %v, want %v", time.Since(began), want)
			}
		}
		troubled.Store(false)
		if c.await(t.Context(), time.Minute); time.Since(began) != 66500*time.Millisecond {
			t.Errorf("asks after %v without trouble", time.Since(began))
		}
	})
}
