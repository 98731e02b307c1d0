package top

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"tidegate/internal/admin"
)

// fakeProxy is an admin server with three players, whose counts grow with each question.
type fakeProxy struct {
	asked  atomic.Int64
	kicked atomic.Value
}

func (f *fakeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/metrics":
		n := f.asked.Add(1)
		fmt.Fprintf(w, "tidegate_sessions{listener=\"a\",protocol=\"raknet\",state=\"established\"} 3\n"+
			"tidegate_dropped_total{listener=\"a\",reason=\"malformed\"} %d\n"+
			"tidegate_dropped_total{listener=\"a\",reason=\"banned\"} 0\n"+
			"tidegate_messages_total{listener=\"a\",protocol=\"raknet\",from=\"client\",mode=\"reliable\"} %d\n", 10*n, 40*n)
	case r.URL.Path == "/api/v1/upstreams":
		fmt.Fprint(w, `{"upstreams":[{"name":"arena","servers":[`+
			`{"address":"10.0.0.5:19132","state":"up","sessions":3,"weight":1}]}]}`)
	case r.URL.Path == "/api/v1/sessions":
		var all []string
		for i, id := range []string{"1", "2", "c"} {
			all = append(all, fmt.Sprintf(`{"id":%q,"state":"established","mode":"terminate","listener":"a","route":"arena",`+
				`"age_seconds":%d,"client":{"address":"192.0.2.%d:5000","protocol":"riptide-2.2","rtt_ms":%d,"messages":%d},`+
				`"server":{"address":"10.0.0.5:19132","protocol":"bedrock","rtt_ms":1.5}}`, id, 100-i, i+1, 30-10*i,
				20*f.asked.Load()))
		}
		fmt.Fprintf(w, `{"sessions":[%s]}`, strings.Join(all, ","))
	case strings.HasSuffix(r.URL.Path, "/kick"):
		f.kicked.Store(r.URL.Path)
		fmt.Fprint(w, "{}")
	}
}

// client returns a client of a fake proxy.
func (f *fakeProxy) client(t *testing.T) *admin.Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return admin.NewClient(admin.Address(server.Listener.Addr().String()), "")
}

// shown returns a model with two samples, one second apart, on a terminal of a size.
func shown(t *testing.T, f *fakeProxy, width, height int) *model {
	t.Helper()
	m := newModel(t.Context(), f.client(t), "tidegate 1.2.3")
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	at := time.Unix(1_800_000_000, 0)
	for i := range 2 {
		sample, players, err := m.source.read(t.Context(), at.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		m.Update(readMsg{sample, players, nil})
	}
	return m
}

// press presses keys, each by its name or its character, and runs the last command.
func press(t *testing.T, m *model, keys ...string) (last tea.Msg) {
	t.Helper()
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "tab": tea.KeyTab,
		"end": tea.KeyEnd, "backspace": tea.KeyBackspace}
	for _, key := range keys {
		msg := tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		if code, ok := special[key]; ok {
			msg = tea.KeyPressMsg{Code: code}
		} else if key == "ctrl+c" {
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		if _, cmd := m.Update(msg); cmd != nil {
			last = cmd()
			m.Update(last)
		}
	}
	return last
}

// plain returns the screen without styles.
func plain(m *model) string { return ansi.Strip(m.text()) }

// TestViews compares each screen at 60 columns, without colors, with a file.
func TestViews(t *testing.T) {
	for name, keys := range map[string][]string{
		"players": nil, "now": {"1"}, "servers": {"3"}, "player": {"enter"}, "help": {"?"},
		"by-rtt": {">", ">", ">", ">", ">", "down"}, "filter": {"/", "2", ":", "enter"}, "kick": {"end", "x"},
	} {
		m := shown(t, new(fakeProxy), 60, 24)
		press(t, m, keys...)
		got := plain(m) + "\n"
		path := filepath.Join("testdata", name+".txt")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// TestViewsFit holds each screen to the size of the terminal.
func TestViewsFit(t *testing.T) {
	for _, size := range [][2]int{{60, 24}, {60, 8}, {20, 5}, {1, 1}, {200, 60}} {
		for _, keys := range [][]string{nil, {"1"}, {"3"}, {"enter"}, {"?"}} {
			m := shown(t, new(fakeProxy), size[0], size[1])
			press(t, m, keys...)
			lines := strings.Split(plain(m), "\n")
			if len(lines) > size[1] {
				t.Errorf("%v, keys %v: %d lines", size, keys, len(lines))
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > size[0] {
					t.Errorf("%v, keys %v: %d columns: %q", size, keys, n, line)
				}
			}
		}
	}
}

// TestKeys covers pausing, quitting, kicking and an ended session.
func TestKeys(t *testing.T) {
	f := new(fakeProxy)
	m := shown(t, f, 80, 24)
	if press(t, m, "x", "n"); f.kicked.Load() != nil {
		t.Error("a session was kicked although the user said no")
	}
	press(t, m, "down", "x", "y")
	if f.kicked.Load() != "/api/v1/sessions/2/kick" || !strings.Contains(plain(m), "kicked: session 2") {
		t.Errorf("kicked %v\n%s", f.kicked.Load(), plain(m))
	}
	press(t, m, "p")
	m.Update(readMsg{Sample{}, nil, nil})
	if len(m.shown) != 3 {
		t.Error("a paused view has changed")
	}
	press(t, m, "p", "enter")
	m.Update(readMsg{Sample{}, nil, nil})
	if !strings.Contains(plain(m), "session 2 has ended") {
		t.Errorf("after the end of the session:\n%s", plain(m))
	}
	m.Update(readMsg{err: context.DeadlineExceeded})
	if !strings.Contains(plain(m), "deadline exceeded") {
		t.Errorf("after an error:\n%s", plain(m))
	}
	for _, key := range []string{"q", "ctrl+c"} {
		if _, ok := press(t, m, key).(tea.QuitMsg); !ok {
			t.Errorf("%s does not quit", key)
		}
	}
}

// TestRates asserts that counts become rates, and that a filter of a hostile name stays harmless.
func TestRates(t *testing.T) {
	m := shown(t, new(fakeProxy), 80, 24)
	s := m.sample
	if s.Sessions != 3 || s.Dropped != 10 || s.FromClients.Count != 40 || len(s.Drops) != 1 ||
		s.Drops[0].Reason != "malformed" || s.Client.RTT != 20 || m.all[0].Up.Count != 20 {
		t.Errorf("sample %+v, first player %+v", s, m.all[0])
	}
	if got := fill("a\x1b[31mb", 8, true); strings.Contains(got, "\x1b") {
		t.Errorf("a text becomes %q", got)
	}
}

// TestWatch takes one sample, with rates.
func TestWatch(t *testing.T) {
	var lines []string
	err := Watch(t.Context(), new(fakeProxy).client(t), 1, func(s *Sample) error {
		lines = append(lines, s.Line(s.At))
		return nil
	})
	if err != nil || len(lines) != 1 || !strings.HasPrefix(lines[0], "0s          3    20.0    1.5") {
		t.Errorf("%q, %v", lines, err)
	}
}
