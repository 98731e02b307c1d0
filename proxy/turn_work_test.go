package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"tidegate/codec/riptide"
	"tidegate/internal/filter"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// manySessions is more than a turn may visit.
const (
	turnSlice    = 1024
	manySessions = 3 * turnSlice
)

// operation is a command of an operator, or another event that concerns all sessions.
type operation struct {
	work stats.Work
	name string
	do   func(t *testing.T, s *Server, m *crowd)
}

// operations are all commands to a loop that may concern every session. Each kind of work that is a command is here,
// or is named in constantWork.
var operations = []operation{
	{stats.WorkBans, "a ban of one", func(_ *testing.T, s *Server, m *crowd) {
		s.options.Bans.Offend(m.now, crowdAddr(7).Addr(), "test")
		s.loops[0].post(stats.WorkBans, (*relay.Relay).EnforceBans)
	}},
	{stats.WorkBans, "a ban of all", func(_ *testing.T, s *Server, m *crowd) {
		s.options.Bans.Add(ratelimit.Ban{Prefix: netip.MustParsePrefix("40.0.0.0/8")})
		s.loops[0].post(stats.WorkBans, (*relay.Relay).EnforceBans)
	}},
	{stats.WorkRules, "rules that refuse all", func(t *testing.T, s *Server, _ *crowd) {
		set, err := filter.New(filter.Rules{Sources: []filter.Source{{
			Name: "all", Prefixes: []netip.Prefix{netip.MustParsePrefix("40.0.0.0/8")}, Verdict: ratelimit.Drop,
		}}})
		if err != nil {
			t.Error(err)
		}
		_ = s.Ask(t.Context(), relay.SetRules(set))
	}},
	{stats.WorkDrain, "the end", func(_ *testing.T, s *Server, _ *crowd) { s.drain() }},
	{stats.WorkList, "all sessions", func(t *testing.T, s *Server, _ *crowd) {
		q := &relay.ListSessions{Limit: manySessions}
		if err := s.Ask(t.Context(), q); err != nil || len(q.Sessions) < manySessions*9/10 {
			t.Errorf("%d sessions, %v", len(q.Sessions), err)
		}
	}},
	{stats.WorkList, "a snapshot", func(t *testing.T, s *Server, _ *crowd) {
		if n := len(s.Snapshot().Sessions); n < manySessions*9/10 {
			t.Errorf("%d sessions", n)
		}
	}},
	{stats.WorkDue, "after a pause of the process", func(_ *testing.T, s *Server, _ *crowd) {
		s.loops[0].ask(stats.WorkDue, func(r *relay.Relay, _ time.Time) { r.Stood(time.Minute) })
	}},
	{stats.WorkList, "the youngest session", func(t *testing.T, s *Server, m *crowd) {
		const id = session.ID(manySessions)
		q := &relay.ShowSession{ID: id}
		if err := s.Ask(t.Context(), q); err != nil || q.Session.ID != id {
			t.Errorf("%v, %v", q.Session, err)
		}
	}},
	{stats.WorkList, "a session that is gone", func(t *testing.T, s *Server, _ *crowd) {
		q := &relay.KickSession{ID: 10 * manySessions}
		if err := s.Ask(t.Context(), q); !errors.Is(err, relay.ErrNoSession) {
			t.Errorf("kick of none: %v", err)
		}
	}},
	{stats.WorkMove, "all sessions of a server", func(t *testing.T, s *Server, _ *crowd) {
		if n, err := s.TransferServer(t.Context(), "arena", virtualServers[0]); err != nil || n < manySessions/3 {
			t.Errorf("moved %d, %v", n, err)
		}
	}},
	{stats.WorkReload, "the same settings", func(_ *testing.T, s *Server, m *crowd) {
		s.loops[0].ask(stats.WorkReload, func(r *relay.Relay, now time.Time) {
			again := *m.settings
			r.Reload(now, &again, make([]netio.Socket, 1))
		})
	}},
	{stats.WorkReload, "limits of addresses", func(_ *testing.T, s *Server, m *crowd) {
		s.loops[0].ask(stats.WorkReload, func(r *relay.Relay, now time.Time) {
			again := *m.settings
			again.Bounds = []ratelimit.Limit{{
				Of: ratelimit.Packets, Per: ratelimit.PerAddress, Rate: ratelimit.Rate{PerSecond: 100, Burst: 100},
				Verdict: ratelimit.Drop,
			}}
			r.Reload(now, &again, make([]netio.Socket, 1))
		})
	}},
	{stats.WorkCapture, "of everything", func(t *testing.T, s *Server, _ *crowd) {
		c := recording.NewCapture(&recording.CaptureFilter{}, s.Loops())
		for _, q := range []relay.Request{relay.StartCapture(c), relay.EndCapture(c)} {
			if err := s.Ask(t.Context(), q); err != nil {
				t.Error(err)
			}
		}
	}},
	{stats.WorkWhy, "an address", func(t *testing.T, s *Server, _ *crowd) {
		q := &relay.ExplainAddress{Address: crowdAddr(manySessions - 1).Addr()}
		if err := s.Ask(t.Context(), q); err != nil || len(q.Why.Sessions) != 1 {
			t.Errorf("%v, %v", q.Why.Sessions, err)
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
		for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
			if mode == policy.ModeRelay && o.work == stats.WorkMove {
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

func visits(t *testing.T, o operation, mode policy.Mode) {
	runtime.LockOSThread() // for threadTime
	defer runtime.UnlockOSThread()
	m := newCrowd(t, manySessions, riptide.New(riptide.Options{IgnoreQuality: true}), mode, func(*relay.Settings) {})
	l := m.run(m)
	done := make(chan struct{})
	go func() {
		o.do(t, m.server, m)
		close(done)
	}()
	most, total, longest, idle := uint64(0), uint64(0), time.Duration(0), 0
	for idle < 3 { // a walk visits sessions in each turn
		before, began := m.relay.Visited(), threadTime()
		ended := isClosed(done) && len(l.mailbox) == 0
		m.turn(l)
		longest = max(longest, threadTime()-began)
		n := m.relay.Visited() - before
		most, total = max(most, n), total+n
		if idle++; n > 0 || !ended {
			idle = 0
		}
	}
	t.Logf("%d visits, %d in one turn at most; the longest turn took %v", total, most, longest)
	if most > 2*turnSlice+64 {
		t.Errorf("a turn visits %d sessions, want at most %d", most, 2*turnSlice)
	}
}
