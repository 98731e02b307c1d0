package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"tidegate/codec/riptide"
	"tidegate/internal/policy"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// heirOfPieces is a successor that only counts.
type heirOfPieces struct{ pieces int }

func (h *heirOfPieces) GiveSockets(GivenSockets) error { return nil }

func (h *heirOfPieces) GiveSessions(CopiedSessions) error {
	h.pieces++
	return nil
}

// TestPassWaitsForItsLoop asserts that a pass goes on when its loop keeps up again, and ends in time if it does not.
func TestPassWaitsForItsLoop(t *testing.T) {
	for name, recovers := range map[string]bool{"recovers": true, "stays behind": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { passOfBusyLoop(t, recovers) })
		})
	}
}

func passOfBusyLoop(t *testing.T, recovers bool) {
	const piece = 128 // sessions in a piece
	const sessions = 3 * piece
	m := newCrowd(t, sessions, riptide.New(riptide.Options{}), policy.ModeRelay, func(*relay.Settings) {})
	l := newLoop(m.relay, wakeless{}, nil)
	defer close(l.done)
	go func() {
		for {
			select {
			case c := <-l.mailbox:
				c.do(l.relay, m.now)
			case <-l.done:
				return
			}
		}
	}()
	m.relay.BeginCopies(nil)
	m.fallBehind()
	began := time.Now()
	p, heir := pass{loop: l, until: began.Add(passesTime)}, &heirOfPieces{}
	ended := make(chan error)
	go func() { ended <- p.run(t.Context(), heir) }()
	<-time.After(passesTime / 2)
	if heir.pieces != 1 {
		t.Errorf("%d pieces while the loop is behind, want 1", heir.pieces)
	}
	if recovers {
		l.ask(stats.WorkHandover, func(r *relay.Relay, _ time.Time) { r.InputDrained() })
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	pieces, within := 1, passesTime+2*restTime
	if recovers {
		pieces, within = 3, passesTime/2+2*restTime
	}
	if heir.pieces != pieces || p.copied != pieces*piece || p.all != sessions {
		t.Errorf("%d pieces, want %d: %d of %d sessions", heir.pieces, pieces, p.copied, p.all)
	}
	if d := time.Since(began); d > within {
		t.Errorf("the pass takes %v, want at most %v", d, within)
	}
	l.ask(stats.WorkHandover, func(r *relay.Relay, _ time.Time) {
		if c := r.CopySome(m.now); recovers && (c.More || c.Count > 0) || !recovers && c.Count >= piece {
			t.Errorf("the pass goes on after its end: %+v", c)
		}
	})
}

// TestPassesEnd gives the passes of traced pre-copies, and checks after which one they end.
func TestPassesEnd(t *testing.T) {
	type pass struct{ copied, ms int }
	for _, c := range []struct {
		name   string
		passes []pass // the last one ends them
	}{
		{"an idle machine", []pass{{10003, 1056}, {4525, 207}, {2233, 75}, {698, 31}, {574, 45}, {430, 25}, {400, 24}}},
		{"few have changed", []pass{{9994, 1258}, {6370, 247}, {2021, 105}, {793, 33}, {165, 13}, {150, 12}}},
		{"no session has changed", []pass{{10000, 1000}, {0, 11}}},
		{"no session", []pass{{0, 1}}},
		{"a slow pass", []pass{{9985, 1033}, {4880, 885}, {7447, 1929}, {9000, 400}, {3000, 100}, {900, 40}, {850, 38}}},
		{"a fast pass after a slow one", []pass{{10001, 1030}, {5625, 1727}, {8366, 358}, {2507, 110}, {900, 40}, {800, 40}}},
		{"a busy machine", []pass{{10000, 1500}, {9500, 1000}, {9400, 990}}},
	} {
		var g gains
		for i, p := range c.passes {
			last := i == len(c.passes)-1
			if end := g.end(p.copied, 10100, time.Duration(p.ms)*time.Millisecond); end != last {
				t.Errorf("%s: pass %d of %d ends the pre-copy: %v", c.name, i+1, len(c.passes), end)
			}
		}
	}
}
