package upstream

import (
	"net/netip"
	"testing"
	"time"
)

var (
	now = time.Unix(1_700_000_000, 0)
	a   = netip.MustParseAddrPort("192.0.2.1:19132")
	b   = netip.MustParseAddrPort("192.0.2.2:19132")
)

func pick(t *testing.T, p *Pool, now time.Time, want netip.AddrPort) *Server {
	t.Helper()
	s := p.Pick(now)
	if s == nil || s.Addr != want {
		t.Fatalf("Pick = %v, want %v", s, want)
	}
	return s
}

func TestLeastSessions(t *testing.T) {
	p := New([]netip.AddrPort{a, b}, Options{})
	first := pick(t, p, now, a)
	pick(t, p, now, b)
	pick(t, p, now, a)
	p.Release(first)
	p.Release(first)
	pick(t, p, now, a)
	if got := first.Sessions(); got != 1 {
		t.Fatalf("sessions = %d, want 1", got)
	}
}

func TestRoundRobin(t *testing.T) {
	p := New([]netip.AddrPort{a, b}, Options{Balance: RoundRobin})
	p.Release(pick(t, p, now, a))
	p.Release(pick(t, p, now, b))
	p.Release(pick(t, p, now, a))
}

func TestFailedServerRests(t *testing.T) {
	p := New([]netip.AddrPort{a, b}, Options{RetryAfter: 5 * time.Second})
	sick := pick(t, p, now, a)
	p.Failed(sick, now)
	p.Release(sick)
	other := pick(t, p, now, b)
	pick(t, p, now, b)
	p.Failed(other, now)
	if s := p.Pick(now.Add(4999 * time.Millisecond)); s != nil {
		t.Fatalf("Pick while all rest = %v", s)
	}
	pick(t, p, now.Add(5*time.Second), a)
	p.Failed(sick, now)
	p.Answered(sick)
	pick(t, p, now, a)
}

// TestUpdate: a server that stays keeps its sessions and its rest, one that goes gets no more.
func TestUpdate(t *testing.T) {
	c := netip.MustParseAddrPort("192.0.2.3:19132")
	p := New([]netip.AddrPort{a, b}, Options{RetryAfter: time.Minute})
	gone, stays := pick(t, p, now, a), pick(t, p, now, b)
	p.Update([]netip.AddrPort{b, c}, Options{RetryAfter: time.Minute})
	pick(t, p, now, c)
	p.Failed(stays, now)
	p.Update([]netip.AddrPort{b, c}, Options{RetryAfter: time.Hour})
	pick(t, p, now, c)
	p.Release(gone)
	if got := stays.Sessions(); got != 1 {
		t.Errorf("sessions of the server that stayed = %d, want 1", got)
	}
}
