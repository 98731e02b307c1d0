package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/filter"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// manySessions is more than a turn may visit.
const manySessions = 3 * turnSlice

// turner is the poller of a loop whose turns a test takes.
type turner struct {
	netio.Poller // nil
	*mass
}

func (turner) Wake()                 {}
func (turner) Wait(time.Time) error  { return nil }
func (turner) Receive(netio.Handler) {}
func (turner) Flush()                {}
func (turner) Stats() netio.Stats    { return netio.Stats{} }

func (t turner) Buffer() []byte { return t.mass.Buffer() }

func (t turner) Dial(to netip.AddrPort, o netio.SocketOptions) (netio.Socket, error) {
	return t.mass.Dial(to, o)
}

func (t turner) Send(s netio.Socket, to netip.AddrPort, datagram []byte) {
	t.mass.Send(s, to, datagram)
}
func (t turner) Forward(s netio.Socket, to netip.AddrPort, datagram []byte) {
	t.mass.Send(s, to, datagram)
}

// operation is a command of an operator, or another event that concerns all sessions.
type operation struct {
	work stats.Work
	name string
	do   func(t *testing.T, s *Server, m *mass)
}

// operations are all commands to a loop that may concern every session. Each kind of work that is a command is here,
// or is named in constantWork.
var operations = []operation{
	{stats.WorkBans, "a ban of one", func(_ *testing.T, s *Server, m *mass) {
		m.relay.guard.bans.Offend(m.now, massAddr(7).Addr(), "test")
		s.loops[0].post(stats.WorkBans, (*Relay).EnforceBans)
	}},
	{stats.WorkBans, "a ban of all", func(_ *testing.T, s *Server, m *mass) {
		m.relay.guard.bans.Add(ratelimit.Ban{Prefix: netip.MustParsePrefix("40.0.0.0/8")})
		s.loops[0].post(stats.WorkBans, (*Relay).EnforceBans)
	}},
	{stats.WorkRules, "rules that refuse all", func(t *testing.T, s *Server, _ *mass) {
		s.Filter(rules(t, filter.Rules{Sources: []filter.Source{from("all", "40.0.0.0/8", ratelimit.Drop)}}))
	}},
	{stats.WorkDrain, "the end", func(_ *testing.T, s *Server, _ *mass) { s.drain() }},
	{stats.WorkList, "all sessions", func(t *testing.T, s *Server, _ *mass) {
		if all, err := s.Sessions(t.Context(), Query{Limit: manySessions}); err != nil || len(all) < manySessions*9/10 {
			t.Errorf("%d sessions, %v", len(all), err)
		}
	}},
	{stats.WorkList, "a snapshot", func(t *testing.T, s *Server, _ *mass) {
		if n := len(s.Snapshot().Sessions); n < manySessions*9/10 {
			t.Errorf("%d sessions", n)
		}
	}},
	{stats.WorkDue, "after a pause of the process", func(_ *testing.T, s *Server, _ *mass) {
		s.loops[0].ask(stats.WorkDue, func(r *Relay, _ time.Time) { r.Stood(time.Minute) })
	}},
	{stats.WorkList, "the youngest session", func(t *testing.T, s *Server, m *mass) {
		if one, err := s.Session(t.Context(), SessionID(manySessions)); err != nil || one.ID != SessionID(manySessions) {
			t.Errorf("%v, %v", one, err)
		}
	}},
	{stats.WorkList, "a session that is gone", func(t *testing.T, s *Server, _ *mass) {
		if err := s.Kick(t.Context(), SessionID(10*manySessions), ""); err != ErrNoSession {
			t.Errorf("kick of none: %v", err)
		}
	}},
	{stats.WorkMove, "all sessions of a server", func(t *testing.T, s *Server, _ *mass) {
		if n, err := s.TransferServer(t.Context(), "arena", serverAddr); err != nil || n < manySessions/3 {
			t.Errorf("moved %d, %v", n, err)
		}
	}},
	{stats.WorkReload, "the same settings", func(_ *testing.T, s *Server, m *mass) {
		s.loops[0].ask(stats.WorkReload, func(r *Relay, now time.Time) {
			again := *m.settings
			r.Reload(now, &again, make([]netio.Socket, 1))
		})
	}},
	{stats.WorkReload, "limits of addresses", func(_ *testing.T, s *Server, m *mass) {
		s.loops[0].ask(stats.WorkReload, func(r *Relay, now time.Time) {
			again := *m.settings
			again.Bounds = []ratelimit.Limit{limit(ratelimit.Packets, ratelimit.PerAddress, 100, 100, ratelimit.Drop)}
			again.Networks = ratelimit.Networks{V4: 24, V6: 64}
			r.Reload(now, &again, make([]netio.Socket, 1))
		})
	}},
	{stats.WorkCapture, "of everything", func(t *testing.T, s *Server, _ *mass) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		_ = s.Capture(ctx, CaptureFilter{}, func(*Catch) error { return context.Canceled })
	}},
	{stats.WorkWhy, "an address", func(t *testing.T, s *Server, _ *mass) {
		if why, err := s.Why(t.Context(), massAddr(manySessions-1).Addr()); err != nil || len(why.Sessions) != 1 {
			t.Errorf("%v, %v", why.Sessions, err)
		}
	}},
}

// constantWork names the kinds of work that are no commands, or that concern no session.
var constantWork = map[stats.Work]string{
	stats.WorkReceive: "bounded by the batches of netio", stats.WorkDue: "bounded by mostDue and by walks",
	stats.WorkWrite: "of the sessions that the other work has marked", stats.WorkSend: "of datagrams that were written",
	stats.WorkSample: "its renewal is a walk", stats.WorkFigures: "totals of listeners",
	stats.WorkLimits:   "sources with debts, of which there are few",
	stats.WorkHandover: "it stands still for a successor",
	stats.WorkKernel:   "filters of listeners", stats.WorkListeners: "sockets of listeners",
}

// TestTurnsVisitFewSessions asserts that no command makes a turn visit more than a bounded number of sessions, and
// that each command ends in spite of that.
func TestTurnsVisitFewSessions(t *testing.T) {
	tried := make(map[stats.Work]bool)
	for _, o := range operations {
		tried[o.work] = true
		for _, mode := range []Mode{ModeTerminate, ModeRelay} {
			if mode == ModeRelay && o.work == stats.WorkMove {
				continue // relayed sessions cannot move
			}
			t.Run(fmt.Sprintf("%v/%s/mode %d", o.work, o.name, mode), func(t *testing.T) { visits(t, o, mode) })
		}
	}
	for w := range stats.Works {
		if !tried[w] && constantWork[w] == "" {
			t.Errorf("no test bounds the work %q", w)
		}
	}
}

// TestOnlyWalksVisitTheTable asserts that no code of the proxy visits all sessions at once. Tests may, and a handover
// stands still for it.
func TestOnlyWalksVisitTheTable(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	standsStill := []string{"batches.go", "save_relay.go"}
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
	m := newMass(t, manySessions, riptide.New(riptide.Options{IgnoreQuality: true}), ModeTerminate, func(s *Settings) {
		s.Listeners[0].Route.Failover.Hold = time.Hour
	})
	of := func() (there, held int) {
		for e := range m.relay.table.All {
			switch p := &e.Value; {
			case p.hold != nil:
				held++
			case p.server.Addr == serverAddr:
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

func visits(t *testing.T, o operation, mode Mode) {
	m := newMass(t, manySessions, riptide.New(riptide.Options{IgnoreQuality: true}), mode, func(*Settings) {})
	l := newLoop(m.relay, turner{mass: m}, nil)
	l.clock = newClock(func() time.Time { return m.now })
	l.clock.start()
	m.server.loops = []*loop{l}
	done := make(chan struct{})
	go func() {
		o.do(t, m.server, m)
		close(done)
	}()
	most, total, longest := uint64(0), uint64(0), time.Duration(0)
	for turns := 0; ; turns++ {
		before, began := m.relay.table.Visited(), time.Now()
		if err := l.turn(); err != nil {
			t.Fatal(err)
		}
		m.out, longest = nil, max(longest, time.Since(began))
		n := m.relay.table.Visited() - before
		most, total = max(most, n), total+n
		if isClosed(done) && len(l.mailbox) == 0 && len(m.relay.walks.list) == 0 {
			break
		}
	}
	t.Logf("%d visits, %d in one turn at most; the longest turn took %v", total, most, longest)
	if most > 2*turnSlice+64 {
		t.Errorf("a turn visits %d sessions, want at most %d", most, 2*turnSlice)
	}
}
