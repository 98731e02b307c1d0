package demo

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/proxy/relay"

	"github.com/rs/zerolog"
)

func TestRun(t *testing.T) {
	for _, step := range []struct {
		name     string
		loss     float64
		terminal bool
		want     []string
	}{
		{"clean link, terminal", 0, true, []string{
			"Starting a game server, Tidegate and 3 clients in this process", "Tidegate on 127.0.0.1:",
			"The clients join now, play for 2s, and say goodbye.", "time     open", "Receivers drop", "\nok: ",
		}},
		{"lossy link, plain", 0.05, false, []string{
			"loses 5 %", "time     open", "lost\n", "\nok: ",
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r, err := Run(t.Context(), Options{
				Pair: MainPair(), For: 2 * time.Second, Clients: 3, Loss: step.loss, Settings: settings(MainPair()), Out: &out,
				Terminal: step.terminal, Log: zerolog.Nop(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if !r.OK() {
				t.Errorf("not OK: %+v", r)
			}
			for _, want := range step.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q", want)
				}
			}
			if r.Unreliable.Returned == 0 || r.RTT50 == 0 || r.RTT99 < r.RTT50 {
				t.Errorf("unreliable messages, or round trips, are missing: %+v", r)
			}
			if (r.Link.Lost > 0) != (step.loss > 0) {
				t.Errorf("the link lost %d datagrams", r.Link.Lost)
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// TestRunEndsEarly ends the demo by its context. The demo finishes in good order.
func TestRunEndsEarly(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := lookout{awaits: regexp.MustCompile(`(?m)^\d+s +1 +\S+ +\S+ +[1-9]`),
		then: cancel} // one client with sent messages
	r, err := Run(ctx, Options{Pair: MainPair(), For: time.Hour, Clients: 1, Settings: settings(MainPair()), Out: &out})
	if err != nil || !r.OK() {
		t.Errorf("%v, %+v\n%s", err, r, out.text.String())
	}
}

// lookout keeps the written text, and calls then once the text matches. It is not safe for concurrent use.
type lookout struct {
	text   strings.Builder
	awaits *regexp.Regexp
	then   func()
}

func (l *lookout) Write(b []byte) (int, error) {
	if l.text.Write(b); l.awaits.MatchString(l.text.String()) {
		l.then()
	}
	return len(b), nil
}

func TestRunRefuses(t *testing.T) {
	without := func(_, _ netip.AddrPort) (*relay.Settings, error) { return nil, errors.New("no such route") }
	_, err := Run(t.Context(), Options{Pair: MainPair(), Clients: 1, Settings: without, Out: io.Discard})
	if want := "make the proxy's settings: no such route"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
