package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/await"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// follow opens a live stream of a server. The function next returns the next event's name and data.
func follow(t *testing.T, base, query string) (next func() (name, data string), end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/live"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	lines := bufio.NewReader(answer.Body)
	line := func(prefix string) string {
		text, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(text, prefix) {
			t.Fatalf("%q, %v: want %q", text, err, prefix)
		}
		return strings.TrimSpace(strings.TrimPrefix(text, prefix))
	}
	return func() (string, string) {
		name, data := line("event: "), line("data: ")
		line("\n")
		return name, data
	}, cancel
}

// TestLiveCollectsOnlyForStreams asserts that several streams share one collector, and that it ends with the last one.
func TestLiveCollectsOnlyForStreams(t *testing.T) {
	f := newFake("")
	web := httptest.NewServer(f)
	defer web.Close()
	if n := f.proxy.asked.Load(); n != 0 {
		t.Fatalf("the proxy was asked %d times before a stream was open", n)
	}
	one, endOne := follow(t, web.URL, "")
	other, endOther := follow(t, web.URL, "?session=c")
	for _, next := range []func() (string, string){one, other} {
		name, data := next()
		var figures Live
		if err := json.Unmarshal([]byte(data), &figures); err != nil || name != "live" || figures.At.IsZero() {
			t.Errorf("%s %s: %v", name, data, err)
		}
	}
	await.Until(t, "the session", func() bool {
		name, data := other()
		return name == "session" && strings.Contains(data, `"id":"c"`)
	})
	if !f.proxy.watched.Load() {
		t.Error("the session is not watched")
	}
	began, start := f.proxy.asked.Load(), time.Now()
	await.Until(t, "three rounds", func() bool { return f.proxy.asked.Load() >= began+3 })
	if took := time.Since(start); took < liveEvery {
		t.Errorf("three rounds for two streams took %v", took)
	}
	endOne()
	endOther()
	await.Until(t, "the collector ended", func() bool {
		f.pages.mu.Lock()
		defer f.pages.mu.Unlock()
		return f.pages.stop == nil
	})
	if f.proxy.watched.Load() {
		t.Error("the session is still watched")
	}
}

// TestLiveIsBounded asserts that streams beyond the bound are refused, and that a session that ended is told.
func TestLiveIsBounded(t *testing.T) {
	f := newFake("")
	for range maxStreams {
		if err := f.pages.open(&stream{events: make(chan []byte, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, f.ask("GET", "/api/v1/live", ""), 503, "close a page")
	want(t, f.ask("GET", "/api/v1/live?session=??", ""), 400)
	want(t, f.ask("GET", "/api/v1/live?speed=1", ""), 400)
	for one := range f.pages.streams {
		f.pages.close(one)
	}
	if text := string(f.pages.session(t.Context(), 99)); !strings.HasPrefix(text, "event: ended\n") {
		t.Error(text)
	}
}

// manyFigures are the figures of a proxy with far more listeners and servers than usual, each with every drop.
func manyFigures(round uint64) *relay.Figures {
	f := busyFigures()
	f.Sessions, f.Drops, f.Servers = nil, nil, nil
	for i := range 500 {
		name := strings.Repeat("x", 60) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		f.Sessions = append(f.Sessions, &stats.Tally{Listener: name, Protocol: "riptide-2.2", Opened: round})
		tally := &stats.DropTally{Listener: name}
		for why := range tally.Drops {
			tally.Drops[why] = round * 1_000_000
		}
		f.Drops = append(f.Drops, tally)
		server := &stats.ServerTally{Upstream: name, Server: "[2001:db8:1111:2222:3333:4444:5555:6666]:19132", Joined: round}
		server.Refused[codec.TimedOut] = round
		f.Servers = append(f.Servers, server)
		f.Kernel.Filtered = append(f.Kernel.Filtered, stats.Filtered{Hook: "interface", Verdict: "passed", Datagrams: round})
	}
	return &f
}

// TestEventSizeIsBounded asserts that an event stays small, however large the configuration is.
func TestEventSizeIsBounded(t *testing.T) {
	var m meter
	now := time.Unix(1e9, 0)
	m.read(now, manyFigures(1))
	l := m.read(now.Add(time.Second), manyFigures(2))
	text := event("live", l)
	t.Logf("%d bytes", len(text))
	if !strings.HasPrefix(string(text), "event: live\n") || len(text) > maxEvent {
		t.Errorf("%d bytes: %.100s", len(text), text)
	}
	if len(l.Floods) == 0 || len(l.Drops) != int(stats.DropCount) {
		t.Errorf("%d floods and %d reasons", len(l.Floods), len(l.Drops))
	}
}

// TestLiveRates asserts that totals become rates per second, and that the first event has none.
func TestLiveRates(t *testing.T) {
	var m meter
	now := time.Unix(1e9, 0)
	figures := func(n uint64) *relay.Figures {
		f := busyFigures()
		f.Sessions[0].Opened, f.Sessions[0].Established = 10+n, 9+n
		f.Counters.FromClients = stats.Traffic{Messages: 100 * n, Bytes: 1000 * n}
		f.Drops[0].Drops[stats.DropBanned] = 500 * n
		f.Servers[0].Joined = 4 * n
		return &f
	}
	if first := m.read(now, figures(1)); first.Over != 0 || first.Joins != 0 || len(first.Drops) != 0 {
		t.Errorf("the first event has rates: %+v", first)
	}
	joins := func(n uint64) map[string]Joins {
		of := Joins{Stages: map[string]uint64{"admitted": 10 * n, "asked": 20 * n, "lost": 7}}
		return map[string]Joins{"play": of, "other": of}
	}
	m.joins(new(Live), joins(1))
	l := m.read(now.Add(2*time.Second), figures(3))
	m.joins(&l, joins(2))
	if want := []LiveRate{{"admitted", 10}, {"asked", 20}}; !slices.Equal(l.Stages, want) {
		t.Errorf("joins by stage %v, want %v", l.Stages, want)
	}
	if l.Over != 2 || l.Joins != 1 || l.FromClients != (LiveTraffic{100, 1000}) || l.Servers[0].Joins != 4 {
		t.Errorf("%+v", l)
	}
	if len(l.Floods) != 1 || l.Floods[0].Rate != 500 || l.Drops[0] != (LiveRate{"banned", 500}) {
		t.Errorf("floods %+v, drops %+v", l.Floods, l.Drops)
	}
}
