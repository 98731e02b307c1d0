package upstream

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"tidegate/internal/policy"
)

var (
	now    = time.Unix(1_700_000_000, 0)
	a      = netip.MustParseAddrPort("192.0.2.1:19132")
	b      = netip.MustParseAddrPort("192.0.2.2:19132")
	c      = netip.MustParseAddrPort("192.0.2.3:19132")
	client = netip.MustParseAddr("198.51.100.1")
)

func pick(t *testing.T, p *Pool, now time.Time, want netip.AddrPort) *Server {
	t.Helper()
	s := p.Pick(now, client, nil)
	if s == nil || s.Addr != want {
		t.Fatalf("Pick = %v, want %v", s, want)
	}
	return s
}

func pickNone(t *testing.T, p *Pool, now time.Time) {
	t.Helper()
	if s := p.Pick(now, client, nil); s != nil {
		t.Fatalf("Pick = %v, want none", s.Addr)
	}
}

// status returns the status of one server.
func status(t *testing.T, p *Pool, now time.Time, addr netip.AddrPort) Status {
	t.Helper()
	all := p.Status(now)
	i := slices.IndexFunc(all, func(s Status) bool { return s.Addr == addr })
	if i < 0 {
		t.Fatalf("no status of %v", addr)
	}
	return all[i]
}

// targetsAt returns targets of equal weight and without bounds.
func targetsAt(addrs ...netip.AddrPort) []Target {
	targets := make([]Target, len(addrs))
	for i, addr := range addrs {
		targets[i].Addr = addr
	}
	return targets
}

// TestFailedServerRestsLongerEachTime checks that rests grow, and that a resting server gets sessions only if there
// is no other.
func TestFailedServerRestsLongerEachTime(t *testing.T) {
	p := New(targetsAt(a, b), Options{RetryAfter: 5 * time.Second})
	sick, well := pick(t, p, now, a), pick(t, p, now, b)
	p.Release(sick)
	p.Release(well)
	at := now
	for _, rest := range []time.Duration{5, 10, 20, 20} {
		rest *= time.Second
		p.Failed(sick, at, at, "silent")
		p.Failed(sick, at.Add(rest/2), at, "silent") // another session, failed by the same outage
		p.Release(pick(t, p, at.Add(rest-time.Millisecond), b))
		if s := status(t, p, at.Add(time.Second), a); s.State != Resting || s.Cause != "silent" || s.Since != at {
			t.Fatalf("status of a server that rests: %+v", s)
		}
		at = at.Add(rest)
		p.Release(pick(t, p, at, a))
	}
	if s := status(t, p, at, a); s.State != Failing || s.Since != now || s.Cause != "silent" {
		t.Errorf("status after the rest: %+v", s)
	}
	p.Failed(sick, at, at, "silent")
	p.Answered(sick, at)
	p.Release(pick(t, p, at, a))
	p.Failed(sick, at, at, "silent")
	p.Release(pick(t, p, at, b))
	pick(t, p, at.Add(5*time.Second), a)
}

// TestAllRest checks that the server whose rest ends first is used when all rest. The next attempt of a session then
// goes elsewhere.
func TestAllRest(t *testing.T) {
	for balance := range policy.Hash + 1 {
		p := New(targetsAt(a, b, c), Options{Balance: balance, RetryAfter: 5 * time.Second})
		servers := p.Servers()
		for i, s := range servers {
			at := now.Add(time.Duration((i+1)%3) * time.Second) // the last listed server rests first
			p.Failed(s, at, at, "silent")
		}
		at := now.Add(3 * time.Second)
		pick(t, p, at, c)
		tried := servers[2]
		for _, want := range []*Server{servers[0], servers[1], servers[2]} {
			if tried = p.Pick(at, client, tried); tried != want {
				t.Fatalf("balance %d: the next try is at %v, want %v", balance, tried, want.Addr)
			}
		}
		_ = p.Drain(at, c, true)
		pick(t, p, at, a)
		_ = p.Drain(at, a, true)
		_ = p.Drain(at, b, true)
		pickNone(t, p, at)
	}
}

// TestFailuresOfHeardServers checks that a failed session is not the server's fault while others hear it. Three
// failures in a row are.
func TestFailuresOfHeardServers(t *testing.T) {
	p := New(targetsAt(a), Options{RetryAfter: 5 * time.Second})
	s := p.Servers()[0]
	rests := func(at time.Time) bool { return status(t, p, at, a).State == Resting }
	at := now
	for range 3 { // in a row, except for the session that is admitted in between
		for range maxExcused {
			begun := at
			at = at.Add(7 * time.Second)
			s.Heard(at.Add(-time.Second))
			if p.Failed(s, at, begun, "silent") || rests(at) {
				t.Fatal("a server rests although others heard it")
			}
		}
		p.Answered(s, at)
		at = at.Add(time.Second)
	}
	if p.Failed(s, at, at.Add(-time.Second), "silent"); !rests(at) {
		t.Error("a server that was not heard does not rest")
	}
	p.Answered(s, at)
	for range maxExcused {
		p.Failed(s, at, now, "silent")
	}
	if p.Failed(s, at, now, "silent"); !rests(at) {
		t.Error("a server that lets nobody in does not rest")
	}
}

// TestHeard checks the precision of the time, also when the clocks of loops differ.
func TestHeard(t *testing.T) {
	var s Server
	if s.heardAfter(now.Add(-time.Hour)) {
		t.Error("heard before it was")
	}
	for _, at := range []time.Duration{0, 5, 100, 90, 101} {
		s.Heard(now.Add(at * time.Millisecond))
	}
	for _, row := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {99, true}, {100, false}} {
		if got := s.heardAfter(now.Add(row.after * time.Millisecond)); got != row.want {
			t.Errorf("heard after %d ms: %v", row.after, got)
		}
	}
}

// TestUpdate checks that a server that stays keeps its sessions and its rest, and that a removed one gets no more.
func TestUpdate(t *testing.T) {
	p := New(targetsAt(a, b), Options{RetryAfter: time.Minute})
	gone, stays := pick(t, p, now, a), pick(t, p, now, b)
	p.Update(targetsAt(b, c), Options{RetryAfter: time.Minute})
	pick(t, p, now, c)
	p.Failed(stays, now, now, "refused")
	p.Update(targetsAt(b, c), Options{RetryAfter: time.Hour})
	pick(t, p, now, c)
	if s := status(t, p, now, a); s.State != Gone || s.Sessions != 1 {
		t.Errorf("status of the server that went: %+v", s)
	}
	p.Release(gone)
	if all := p.Status(now); len(all) != 2 || all[0].Sessions != 1 || all[0].State != Resting {
		t.Errorf("in the end: %+v", all)
	}
}

// TestServersComeBack checks that a server that is listed again before its sessions end is the same one.
func TestServersComeBack(t *testing.T) {
	p := New(targetsAt(a, b), Options{})
	first := pick(t, p, now, a)
	p.Update(targetsAt(b), Options{})
	p.Update(targetsAt(b, a), Options{})
	pick(t, p, now, b)
	p.Release(first)
	pick(t, p, now, a)
}

func TestDiscover(t *testing.T) {
	p := New(targetsAt(a), Options{})
	p.Discover([]Target{{Addr: a, MaxSessions: 1}, {Addr: b}})
	pick(t, p, now, a)
	pick(t, p, now, b)
	pick(t, p, now, a) // as configured: without a bound
	p.Update(targetsAt(a), Options{Balance: policy.RoundRobin})
	pick(t, p, now, a)
	pick(t, p, now, b)
	p.Discover(nil)
	pick(t, p, now, a)
	pick(t, p, now, a)
}

func TestMostSessions(t *testing.T) {
	p := New([]Target{{Addr: a, MaxSessions: 1}, {Addr: b, MaxSessions: 2}}, Options{})
	full := pick(t, p, now, a)
	pick(t, p, now, b)
	pick(t, p, now, b)
	pickNone(t, p, now)
	p.Release(full)
	pick(t, p, now, a)
	if p.Take(a) != full || p.Take(c) != nil {
		t.Error("Take does not find the server of an address, or finds one that is not there")
	}
}

func TestDrain(t *testing.T) {
	p := New(targetsAt(a, b), Options{})
	if err := p.Drain(now, a, true); err != nil {
		t.Fatal(err)
	}
	_ = p.Drain(now.Add(time.Second), a, true) // a second drain changes nothing
	pick(t, p, now, b)
	pick(t, p, now, b)
	p.Update(targetsAt(a, b), Options{Balance: policy.RoundRobin})
	if s := status(t, p, now, a); s.State != Draining || s.Since != now {
		t.Errorf("status after an Update: %+v", s)
	}
	if err := p.Drain(now, a, false); err != nil {
		t.Fatal(err)
	}
	pick(t, p, now, a)
	if err := p.Drain(now, c, true); err != ErrUnknown {
		t.Errorf("drain of an unknown server: %v", err)
	}
}

func TestChecks(t *testing.T) {
	p := New(targetsAt(a), Options{Rise: 2, Fall: 3, RetryAfter: time.Hour})
	s := p.Servers()[0]
	for range 5 {
		p.Checked(s, now, false, 0, "silent")
	}
	pick(t, p, now, a) // it may not know the question
	for i, step := range []struct{ passed, changed, open bool }{
		{true, false, true}, {false, false, true}, {false, false, true}, {true, false, true}, // two checks are not three
		{false, false, true}, {false, false, true}, {false, true, false}, {false, false, false},
		{true, false, false}, {false, false, false}, {true, false, false}, {true, true, true}, {true, false, true},
	} {
		at := now.Add(time.Duration(i) * time.Second)
		if got := p.Checked(s, at, step.passed, time.Millisecond, "silent"); got != step.changed {
			t.Fatalf("step %d: changed = %v", i, got)
		}
		if got := p.Pick(at, client, nil) != nil; got != step.open {
			t.Fatalf("step %d: open = %v", i, got)
		}
		if i == 7 {
			p.Failed(s, at, at.Add(time.Millisecond), "refused")
		}
	}
	got := status(t, p, now, a)
	if got.State != Up || got.Since != now.Add(11*time.Second) || got.RTT != time.Millisecond {
		t.Errorf("status in the end: %+v", got)
	}
	p = New(targetsAt(a), Options{Rise: 2, Fall: 3})
	for range 3 {
		p.Checked(p.Servers()[0], now, false, 0, Refused)
	}
	pickNone(t, p, now)
	p.Update(targetsAt(a), Options{})
	pick(t, p, now, a) // there are no checks any more
}

// TestManyServersAreListedSoon changes a list of fifty thousand servers, one of them with a session. Joins wait for
// that. It takes milliseconds, and would take many seconds if each server were compared with all others.
func TestManyServersAreListedSoon(t *testing.T) {
	all := make([]Target, 50_000)
	for i := range all {
		all[i].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 7777)
	}
	p, began := new(Pool), time.Now()
	p.Discover(all)
	s := p.Take(all[0].Addr)
	p.Discover(all[1:])
	p.Discover(all[2:])
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if len(p.Servers()) != len(all)-2 || len(p.leaving) != 1 || p.leaving[0] != s || !s.gone {
		t.Errorf("%d servers, and %d left", len(p.Servers()), len(p.leaving))
	}
}

// TestConcurrentSessions checks that counts are right with several loops.
func TestConcurrentSessions(t *testing.T) {
	var pools Pools
	pools.Get("arena").Update([]Target{{Addr: a, MaxSessions: 50}, {Addr: b, MaxSessions: 50}}, Options{})
	var loops sync.WaitGroup
	got := make([]int, 8)
	for i := range got {
		loops.Go(func() {
			p := pools.Get("arena")
			for range 100 {
				if s := p.Pick(now, client, nil); s != nil {
					got[i]++
				}
			}
		})
	}
	loops.Wait()
	sum := 0
	for _, n := range got {
		sum += n
	}
	if all := pools.Get("arena").Status(now); sum != 100 || all[0].Sessions != 50 || all[1].Sessions != 50 {
		t.Errorf("%d sessions; %+v", sum, all)
	}
}

// TestInheritDrains checks that a successor keeps an operator's drains, also of servers that it discovers later.
func TestInheritDrains(t *testing.T) {
	old := New(targetsAt(a, b), Options{})
	old.Discover(targetsAt(c))
	for _, addr := range []netip.AddrPort{a, c} {
		if err := old.Drain(now, addr, true); err != nil {
			t.Fatal(err)
		}
	}
	p := New(targetsAt(a, b), Options{})
	p.InheritDrains(now, old.Drained())
	if got := p.Drained(); !slices.Equal(got, []netip.AddrPort{a, c}) {
		t.Errorf("drained are %v, want a and c", got)
	}
	p.Discover(targetsAt(c))
	pick(t, p, now, b)
	pick(t, p, now, b)
	for _, addr := range p.Drained() {
		if err := p.Drain(now, addr, false); err != nil {
			t.Fatal(err)
		}
	}
	p.Discover(nil)
	p.Discover(targetsAt(c)) // listed again, it is not drained again
	if got := p.Drained(); len(got) != 0 {
		t.Errorf("drained are %v after all", got)
	}
}

// TestFleetDrains checks that a drain of the fleet holds for servers and upstreams that are listed later, and again
// when a server comes back.
func TestFleetDrains(t *testing.T) {
	var pools Pools
	pools.SetFleetDrain("arena", c, now) // before the upstream is known
	p := pools.Get("arena")
	p.Update(targetsAt(a, b), Options{})
	pools.SetFleetDrain("arena", a, now)
	pick(t, p, now, b)
	for range 2 { // a server that leaves and comes back stays drained
		p.Discover(targetsAt(c))
		if got := p.Drained(); !slices.Equal(got, []netip.AddrPort{a, c}) {
			t.Errorf("drained are %v, want a and c", got)
		}
		p.Discover(nil)
		if got := p.Drained(); len(got) != 2 { // a successor needs c too
			t.Errorf("drained are %v, want a and c", got)
		}
	}
	p.Discover(targetsAt(c))
	p.InheritDrains(now, []netip.AddrPort{a})
	for _, addr := range []netip.AddrPort{a, c} {
		pools.SetFleetDrain("arena", addr, time.Time{})
	}
	if got := p.Drained(); len(got) != 0 || len(pools.fleet) != 0 {
		t.Errorf("drained are %v after all; %v", got, pools.fleet)
	}
}

// TestFleetSessions bounds the sessions of a server together with those of other nodes, also if the server is listed
// later, and admits again when another node has fewer.
func TestFleetSessions(t *testing.T) {
	var pools Pools
	elsewhere := func(n int) {
		pools.SetFleetSessions(map[string]map[netip.AddrPort]int{"arena": {a: n, c: 9}, "unknown": {a: 9}})
	}
	elsewhere(2)
	p := pools.Get("arena")
	p.Update([]Target{{Addr: a, MaxSessions: 3}}, Options{})
	first := pick(t, p, now, a)
	pickNone(t, p, now)
	elsewhere(1)
	pick(t, p, now, a)
	elsewhere(5) // the other nodes did not know of the last session: all stay
	pickNone(t, p, now)
	p.Release(first)
	pickNone(t, p, now)
	if s := status(t, p, now, a); s.Sessions != 1 || s.Elsewhere != 5 {
		t.Errorf("status: %+v", s)
	}
	p.Update(nil, Options{})
	p.Discover([]Target{{Addr: a, MaxSessions: 7}, {Addr: c, MaxSessions: 9}})
	pick(t, p, now, a)
	pickNone(t, p, now)
	pools.SetFleetSessions(nil) // the other nodes are gone
	pick(t, p, now, c)
}

// TestFleetSessionsWakeQueue tells the loop of a queued session that another node has left room for it.
func TestFleetSessionsWakeQueue(t *testing.T) {
	woken := 0
	pools := Pools{Wake: func(shard int) {
		if shard == 3 {
			woken++
		}
	}}
	p := pools.Get("arena")
	p.Update([]Target{{Addr: a, MaxSessions: 2}}, Options{})
	s := pick(t, p, now, a)
	pools.SetFleetSessions(map[string]map[netip.AddrPort]int{"arena": {a: 2}})
	ticket := &Ticket{Client: 1, Shard: 3}
	p.Enqueue(ticket, s)
	p.Release(s)
	p.Ready(ticket)
	if got, _ := p.NextTurn(now, 3); got != nil {
		t.Fatal("a queued session asks a server without room")
	}
	woken = 0
	pools.SetFleetSessions(map[string]map[netip.AddrPort]int{"arena": {a: 1}})
	if got, at := p.NextTurn(now, 3); woken != 1 || got != ticket || at != s {
		t.Errorf("woken %d times, turn of %v at %v", woken, got, at)
	}
}

// TestTroubled asserts that discovered servers that fail are in trouble until they are heard again. Configured ones are
// not: nothing would be looked up.
func TestTroubled(t *testing.T) {
	now := time.Now()
	at := netip.MustParseAddrPort("192.0.2.1:7777")
	for _, discovered := range []bool{false, true} {
		p := New(nil, Options{RetryAfter: time.Second, Rise: 1, Fall: 3})
		if discovered {
			p.Discover(targetsAt(at))
		} else {
			p.Update(targetsAt(at), Options{RetryAfter: time.Second, Rise: 1, Fall: 3})
		}
		s := p.Servers()[0]
		for name, fail := range map[string]func(){
			"a join":    func() { p.Failed(s, now, now, "silent") },
			"a session": func() { p.Doubt(s, now, "timed-out") },
			"a check":   func() { p.Checked(s, now, false, 0, Refused) },
		} {
			if p.Troubled() {
				t.Fatalf("in trouble before %s has failed", name)
			}
			if fail(); p.Troubled() != discovered {
				t.Errorf("discovered %v, after %s has failed: %v", discovered, name, p.Troubled())
			}
			now = now.Add(time.Second)
			s.Heard(now)
		}
	}
}

// New returns a pool of the given servers.
func New(servers []Target, o Options) *Pool {
	p := new(Pool)
	p.Update(servers, o)
	return p
}
