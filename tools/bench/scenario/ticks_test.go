package scenario

import (
	"strings"
	"testing"
	"time"
)

// TestTicks plays a game of every protocol whose messages stay apart. Each input is part of exactly one state.
func TestTicks(t *testing.T) {
	for _, p := range messageProtocols {
		if p.Spec().Joins {
			continue
		}
		t.Run(p.Spec().Name, func(t *testing.T) {
			server, err := startTickGame(p, 100, minState, formOf(p, p).head)
			if err != nil {
				t.Fatal(err)
			}
			defer server.stop()
			l, err := newTickLoad(p, 5, minSize, server.addr())
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			if err := l.open(); err != nil {
				t.Fatal(err)
			}
			l.keepsPace(t)
		})
	}
}

func TestInvalidTicks(t *testing.T) {
	good := Options{
		Sessions: 1, Size: minSize, Rounds: 1, Window: time.Second, Ticks: 30, State: minState, From: bedrock,
	}
	for says, change := range map[string]func(*Options){
		"0 ticks a second":        func(o *Options) { o.Ticks = 0 },
		"states of 128 bytes":     func(o *Options) { o.State = minState - 1 },
		"states of 1201 bytes":    func(o *Options) { o.State = maxSize + 1 },
		"may arrive joined":       func(o *Options) { o.From = "rudp" },
		`"quake": cannot be meas`: func(o *Options) { o.From = "quake" },
	} {
		o := good
		change(&o)
		if _, err := Ticks(&o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
