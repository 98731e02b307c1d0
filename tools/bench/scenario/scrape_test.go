package scenario

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestEstablished(t *testing.T) {
	const metrics = `# TYPE tidegate_sessions gauge
tidegate_sessions{listener="a",protocol="any",state="established"} 40
tidegate_sessions{listener="a",protocol="any",state="half-open"} 9
tidegate_sessions{listener="b",protocol="any",state="established"} 2
tidegate_sessions_opened_total{listener="b",protocol="any"} 50
`
	if got := established([]byte(metrics)); got != 42 {
		t.Errorf("%d sessions, want 42", got)
	}
}

// TestCauses names the reasons for missing sessions.
func TestCauses(t *testing.T) {
	const metrics = `tidegate_dropped_total{listener="a",reason="socket"} 12
tidegate_dropped_total{listener="b",reason="socket"} 4
tidegate_dropped_total{listener="b",reason="overload"} 0
tidegate_sessions_ended_total{listener="a",protocol="any",by="proxy",reason="timed-out"} 3
`
	if got, want := causes([]byte(metrics)), "16 dropped: socket, 3 ended: timed-out"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := causes(nil), "nothing was dropped, no session ended"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestContext ends a long measurement early.
func TestContext(t *testing.T) {
	server, err := startEcho()
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	l, err := newDatagramLoad(1, minSize, server.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	l.ctx = ctx
	enough := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
	if err := saturate(l, time.Hour); !errors.Is(err, enough) {
		t.Errorf("the load ended with %v", err)
	}
}
