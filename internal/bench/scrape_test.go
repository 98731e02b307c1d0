package bench

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

// TestInterruption: who asked for the end has it, however long the measurement would be.
func TestInterruption(t *testing.T) {
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
	l.interruption = interruption{ctx}
	enough := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
	if err := saturate(l, time.Hour); !errors.Is(err, enough) {
		t.Errorf("it ended with %v", err)
	}
}
