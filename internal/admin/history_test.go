package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// TestHistoryHoldsTheLastHour collects for three hours. The history must have the last one only, in order, and no
// more memory than it says.
func TestHistoryHoldsTheLastHour(t *testing.T) {
	s := newFake("")
	start := time.Unix(1_700_000_000, 0)
	f := relay.Figures{Sessions: []*stats.Tally{new(stats.Tally)}, Drops: []*stats.DropTally{{Listener: "a"}}}
	for i := range 3 * maxPast {
		f.Sessions[0].Opened, f.Sessions[0].Established = uint64(i), uint64(i)
		next := *f.Drops[0]
		for why := range next.Drops {
			next.Drops[why] = uint64(i * 5)
		}
		f.Drops = []*stats.DropTally{&next}
		s.past.take(start.Add(time.Duration(i)*pastEvery), &f)
	}
	past, err := s.listPast(new(http.Request))
	if err != nil || len(past.Times) != maxPast || !slices.IsSorted(past.Times) {
		t.Fatalf("%d times: %v", len(past.Times), err)
	}
	if first := start.Add(time.Duration(2*maxPast) * pastEvery); past.Times[0] != float64(first.Unix()) {
		t.Errorf("begins at %v, want %v", past.Times[0], first.Unix())
	}
	if len(past.Series) != len(pastNames)+maxPastDrop {
		t.Errorf("%d series, want the drops of %d reasons", len(past.Series), maxPastDrop)
	}
	for _, one := range past.Series {
		if len(one.Values) != maxPast {
			t.Errorf("%s has %d values", one.Name, len(one.Values))
		}
		if one.Name == "sessions" && one.Values[0] != float64(2*maxPast) {
			t.Errorf("sessions begin with %v", one.Values[0])
		}
		if strings.HasPrefix(one.Name, "drop ") && one.Values[5] != 1 {
			t.Errorf("%s: %v a second", one.Name, one.Values[5])
		}
	}
}

// TestHistoryCollectsAtItsInterval: rates of two collections at once would be far too high, and tell of floods.
func TestHistoryCollectsAtItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("")
		ctx, cancel := context.WithTimeout(t.Context(), pastEvery+time.Second)
		defer cancel()
		s.past.run(ctx)
		if n := len(s.past.points); n != 2 {
			t.Errorf("%d points in %v", n, pastEvery)
		}
	})
}

// TestLostIsTold has the kernel drop what servers send. The log tells so once a minute, and why does too.
func TestLostIsTold(t *testing.T) {
	s := newFake("")
	var log strings.Builder
	s.Log = zerolog.New(&log)
	f := relay.Figures{Sockets: make([]netio.Stats, 2)}
	start := time.Now()
	told := func(after time.Duration, dropped uint64, want string) {
		t.Helper()
		log.Reset()
		f.Sockets[1].DialedDrops += dropped
		s.past.take(start.Add(after), &f)
		if got := log.String(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("after %v the log says %q, want %q", after, got, want)
		}
	}
	told(0, 0, "")
	told(5*time.Second, 7, `"datagrams":7`)
	told(10*time.Second, 20, "")
	told(30*time.Second, 3, "")
	told(quietTime+5*time.Second, 0, `"datagrams":23`)
	told(3*quietTime, 0, "")
	if got := s.past.kernel(); !strings.Contains(got, "30 datagrams") {
		t.Errorf("why says %q", got)
	}
	s.past.lostAt = start.Add(-2 * time.Hour)
	if got := s.past.kernel(); got != "" {
		t.Errorf("two hours later why says %q", got)
	}
}

// TestWrongMethodIsTold asks paths with a method that they do not have.
func TestWrongMethodIsTold(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/bans": "GET, POST", "/api/v1/sessions": "GET", "/api/v1/drain": "POST", "/api/v1/nowhere": "",
	} {
		w := httptest.NewRecorder()
		newFake("").ServeHTTP(w, httptest.NewRequest(http.MethodPut, "http://127.0.0.1"+path, http.NoBody))
		status := http.StatusMethodNotAllowed
		if want == "" {
			status = http.StatusNotFound
		}
		if got := w.Header().Get("Allow"); w.Code != status || got != want {
			t.Errorf("PUT %s: %d, Allow %q, want %q", path, w.Code, got, want)
		}
	}
}

// TestEventsAreBounded adds more events than fit, with texts that are too long.
func TestEventsAreBounded(t *testing.T) {
	var e Events
	for i := range maxEvents + 10 {
		e.Add("reload", false, "%d %s", i, strings.Repeat("x", 1000))
	}
	all := e.List()
	if len(all) != maxEvents || !strings.HasPrefix(all[0].Text, "10 ") || len(all[0].Text) != maxEventText {
		t.Errorf("%d events, the first is %q", len(all), all[0].Text)
	}
	(*Events)(nil).Add("reload", false, "kept nowhere")
}

// TestHistoryFindsEvents changes each figure that is an event, and asserts what the time line says, once for each.
func TestHistoryFindsEvents(t *testing.T) {
	s := newFake("")
	s.Events = new(Events)
	server := upstream.Status{Addr: netip.MustParseAddrPort("192.0.2.9:7777")}
	p := s.proxy
	p.upstreams = []proxy.UpstreamStatus{{Name: "arena", Servers: []upstream.Status{server}}}
	now := time.Unix(1_700_000_000, 0)
	figures := relay.Figures{Drops: []*stats.DropTally{{Listener: "players"}}}
	turn := func(change func(f *relay.Figures)) {
		drops := *figures.Drops[0]
		figures.Drops = []*stats.DropTally{&drops}
		change(&figures)
		s.past.take(now, &figures)
		now = now.Add(pastEvery)
	}
	same := func(*relay.Figures) {}
	turn(same)
	turn(func(f *relay.Figures) { f.Bans = 2 })
	turn(func(f *relay.Figures) { f.Drops[0].Drops[stats.DropUnknownProtocol] += 100_000 })
	turn(func(f *relay.Figures) { f.Drops[0].Drops[stats.DropUnknownProtocol] += 100_000 })
	turn(same)
	broken := func(f *relay.Figures) { f.Counters.Limits[0][0].Observed += 7 }
	turn(broken)
	turn(broken)
	turn(func(f *relay.Figures) {
		f.Draining = true
		p.upstreams[0].Servers[0].State = upstream.Draining
	})
	turn(same)
	now = now.Add(2 * quietTime)
	turn(broken)
	var got []string
	for _, e := range s.Events.List() {
		got = append(got, e.Kind+": "+e.Text)
	}
	limit := "limit: limit of " + ratelimit.Quantity(0).String() + " per " + ratelimit.Scope(0).String() +
		" is broken: observed only"
	want := []string{
		"ban: 2 networks are banned, before 0", "flood: flood at listener players began",
		"flood: flood at listener players is over", limit, "drain: server 192.0.2.9:7777 of arena: drained",
		"drain: the proxy admits no new players", limit,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the time line is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
