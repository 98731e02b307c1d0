package relay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/policy"
)

// manySessions is more than a turn may visit.
const manySessions = 3 * turnSlice

// TestOnlyWalksVisitTheTable asserts that no code of the proxy visits all sessions at once. Tests may, and a handover
// stands still for it.
func TestOnlyWalksVisitTheTable(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	standsStill := []string{"batches.go", "save.go"}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") || slices.Contains(standsStill, file) {
			continue
		}
		if strings.Contains(string(source), "table.All") {
			t.Errorf("%s visits all sessions in one turn: use Relay.walk", file)
		}
	}
}

// TestLostServerTakesSomeTurns loses a server of thousands of sessions that must keep their client IDs. One of them
// notices. All are held, a bounded number in each turn.
func TestLostServerTakesSomeTurns(t *testing.T) {
	protocol := riptide.New(riptide.Options{IgnoreQuality: true})
	m := newMass(t, manySessions, protocol, policy.ModeTerminate, func(s *Settings) {
		s.Listeners[0].Route.Failover.Hold = time.Hour
	})
	of := func() (there, held int) {
		for e := range m.relay.table.All {
			switch session := &e.Value; {
			case session.hold != nil:
				held++
			case session.server.Addr == serverAddr:
				there++
			}
		}
		return there, held
	}
	before, _ := of()
	m.now = m.now.Add(deafTime + 200*time.Millisecond)
	lost := false
	most := uint64(0)
	for turns := 0; ; turns++ {
		if there, held := of(); there == 0 {
			if held < before {
				t.Errorf("%d of %d sessions are held", held, before)
			}
			t.Logf("%d sessions held after %d turns, %d visits in one turn at most", held, turns, most)
			break
		} else if turns > 1000 {
			t.Fatalf("after %d turns %d of %d sessions are held, %d are not", turns, held, before, there)
		}
		m.now = m.now.Add(20 * time.Millisecond)
		if !lost {
			for e := range m.relay.table.All {
				if e.Value.server.Addr == serverAddr {
					e.Value.upstream.Down = true
					m.relay.upstreamGone(m.now, e, codec.Goodbye{Reason: codec.TimedOut})
					m.relay.settle(m.now, e)
					lost = true
					break
				}
			}
		}
		visited := m.relay.table.Visited()
		m.relay.Advance(m.now)
		m.relay.Flush(m.now)
		m.out = nil
		most = max(most, m.relay.table.Visited()-visited)
	}
	if before < manySessions/3 || most > 2*turnSlice {
		t.Errorf("%d sessions, %d visits in one turn", before, most)
	}
}
