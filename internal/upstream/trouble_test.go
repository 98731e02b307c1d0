package upstream

import (
	"slices"
	"testing"
	"time"
)

// watched returns a Pool with one server, and the list of the states that its Pools has reported.
func watched(o Options) (p *Pool, s *Server, told *[]State) {
	told = new([]State)
	pools := &Pools{Changed: func(c Change) { *told = append(*told, c.To) }}
	p = pools.Get("arena")
	p.Update(targetsAt(a), o)
	return p, p.Servers()[0], told
}

// TestServerWithoutPlayersIsNeverPlainlyUp plays everything that players can meet at a server. With any health, the
// state must name it, with its cause, its beginning and the players who were turned away.
func TestServerWithoutPlayersIsNeverPlainlyUp(t *testing.T) {
	start := time.Now()
	turn := func(p *Pool, s *Server, n int, why string, spoke bool) {
		for i := range n {
			p.TurnedAway(s, start.Add(time.Duration(i)*time.Second), start, why, spoke)
		}
	}
	for name, test := range map[string]struct {
		meet   func(p *Pool, s *Server)
		state  State
		cause  string
		turned int
	}{
		"nothing yet": {func(*Pool, *Server) {}, Up, NotHeard, 0},
		"a join finds nobody": {func(p *Pool, s *Server) {
			p.Failed(s, start, start, "no-connection")
			turn(p, s, 2, "no-connection", false)
		}, Failing, "no-connection", 2},
		"a player loses it":  {func(p *Pool, s *Server) { p.Doubt(s, start, "timed-out") }, Failing, "timed-out", 0},
		"two scanners":       {func(p *Pool, s *Server) { turn(p, s, 2, "timed-out", false) }, Up, NotHeard, 2},
		"silence for three":  {func(p *Pool, s *Server) { turn(p, s, 3, "timed-out", false) }, Failing, "timed-out", 3},
		"one wrong password": {func(p *Pool, s *Server) { turn(p, s, 1, "rejected", true) }, Up, NotHeard, 1},
		"it refuses three": {func(p *Pool, s *Server) {
			turn(p, s, 3, "server-full", true)
		}, Refusing, "server-full", 3},
		"it refuses, but pongs": {func(p *Pool, s *Server) {
			turn(p, s, 4, "banned", true)
			s.Heard(start)
		}, Refusing, "banned", 4},
		"it fails, is heard": {func(p *Pool, s *Server) {
			p.Failed(s, start, start, "timed-out")
			s.Heard(start.Add(time.Second))
		}, Up, "", 0},
		"it fails, and checks pass": {func(p *Pool, s *Server) {
			turn(p, s, 3, "server-full", true)
			for i := range 9 {
				p.Checked(s, start.Add(time.Duration(i)*time.Second), true, time.Millisecond, "")
			}
		}, Refusing, "server-full", 3},
		"it admits again": {func(p *Pool, s *Server) {
			turn(p, s, 5, "server-full", true)
			p.Doubt(s, start, "timed-out")
			p.Answered(s, start.Add(time.Second))
		}, Up, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := watched(Options{RetryAfter: 5 * time.Second, Rise: 2, Fall: 3})
			test.meet(p, s)
			got := status(t, p, start.Add(time.Minute), a)
			if got.State != test.state || got.Cause != test.cause || got.TurnedAway != test.turned {
				t.Errorf("status %+v, want %v, %q, %d", got, test.state, test.cause, test.turned)
			}
			if got.State != Up && !got.Since.Equal(start) {
				t.Errorf("since %v, want %v", got.Since, start)
			}
			var later Pools
			later.Get("arena").Update(targetsAt(a), Options{RetryAfter: 5 * time.Second, Rise: 2, Fall: 3})
			later.Restore(p.pools.Save())
			after := status(t, later.Get("arena"), start.Add(time.Minute), a)
			if after.State != got.State || after.Cause != got.Cause || after.TurnedAway != got.TurnedAway {
				t.Errorf("status %+v after an upgrade, want %+v", after, got)
			}
		})
	}
}

// TestChangesAreToldOnce asserts that each change of a server's state is reported once, also that checks and players
// agree.
func TestChangesAreToldOnce(t *testing.T) {
	start := time.Now()
	p, s, told := watched(Options{RetryAfter: time.Second, Rise: 1, Fall: 1})
	for i := range 20 {
		p.Failed(s, start.Add(time.Duration(i)*time.Second), start, "timed-out")
		p.TurnedAway(s, start, start, "timed-out", false)
	}
	p.Checked(s, start, false, 0, Refused)
	p.Doubt(s, start, "timed-out")
	p.Checked(s, start.Add(time.Minute), true, 0, "")
	p.Answered(s, start.Add(time.Minute))
	if want := []State{Failing, Down, Up}; !slices.Equal(*told, want) {
		t.Errorf("told %v, want %v", *told, want)
	}
}

// TestSilenceCountsOnlyIfNobodyHearsTheServer asserts that forged datagrams, which a server rightly ignores, do not
// make it look dead while players are on it.
func TestSilenceCountsOnlyIfNobodyHearsTheServer(t *testing.T) {
	start := time.Now()
	p, s, told := watched(Options{RetryAfter: time.Second})
	s.Heard(start.Add(time.Millisecond))
	for range 100 {
		p.TurnedAway(s, start.Add(10*time.Second), start, "timed-out", false)
	}
	got := status(t, p, start.Add(10*time.Second), a)
	if got.State != Up || got.TurnedAway != 0 || len(*told) > 0 {
		t.Errorf("status %+v, told %v", got, *told)
	}
}
