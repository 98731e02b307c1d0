package relay

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec/raknet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
)

// TestImportIsSpread asserts that an import does little at once, and that each turn restores only a few sessions. An
// operator's list has all of them.
func TestImportIsSpread(t *testing.T) {
	const sessions = 300
	m := newMass(t, sessions, raknet.New(raknet.Options{}), policy.ModeTerminate, func(*Settings) {})
	old := m.relay
	shared, all := exportAll(old, m.now)
	want := list(old, m.now, ListSessions{Limit: sessions})
	r := m.successor(t)
	importAll(t, r, m.now, shared, all)
	first := pendingOf(r)
	if first < sessions-turnSlice/completing-1 {
		t.Fatalf("%d of %d sessions are pending after the import", first, sessions)
	}
	for turns := 0; pendingOf(r) > 0; turns++ {
		before := pendingOf(r)
		r.Advance(m.now)
		r.Flush(m.now)
		if done := before - pendingOf(r); done > turnSlice/completing+1 || done == 0 {
			t.Fatalf("turn %d restores %d sessions, want at most %d", turns, done, turnSlice/completing+1)
		}
		if turns == 2 {
			q := &ListSessions{Limit: sessions}
			r.walk(m.now, q.put(r, m.now), nil)
			for r.walks.due != (time.Time{}) {
				r.Advance(m.now)
			}
			got := slices.Concat(q.pages...)
			if len(got) != len(want) || got[0].ID != want[0].ID || got[sessions-1] != want[sessions-1] {
				t.Fatalf("the list has %d sessions, want %d", len(got), len(want))
			}
		}
	}
}

// TestDamagedRecordCostsOneSession asserts that a damaged record ends its session only, also if the damage shows late.
func TestDamagedRecordCostsOneSession(t *testing.T) {
	m := newMass(t, 3, raknet.New(raknet.Options{}), policy.ModeTerminate, func(*Settings) {})
	shared, all := exportAll(m.relay, m.now)
	r := m.successor(t)
	i := BeginImport(r, m.now)
	if err := i.shared(shared, noSocket); err != nil {
		t.Fatal(err)
	}
	if err := i.session(all[0].bytes[:40], all[0].sockets); err == nil || !all[0].sockets[0].(*simSocket).closed {
		t.Fatalf("a cut record: %v", err)
	}
	for _, one := range all[1:] {
		if err := i.session(one.bytes, one.sockets); err != nil {
			t.Fatal(err)
		}
	}
	for e := range r.table.All {
		if e.Key.Client == massAddr(1) {
			e.Value.pending.body = e.Value.pending.body[:len(e.Value.pending.body)-1]
		}
	}
	i.end() // it restores the connections of the first sessions
	if n := r.table.Len(); n != 1 {
		t.Fatalf("%d sessions are left, want 1", n)
	}
	if c := &r.counters; c.Opened-c.Closed != 1 {
		t.Errorf("%d opened, %d closed", c.Opened, c.Closed)
	}
}

// TestSessionsOfRemovedListeners asserts that sessions go on if the successor's settings have neither their listener
// nor their route. The listener is retired, as after a reload.
func TestSessionsOfRemovedListeners(t *testing.T) {
	m := newMass(t, 3, raknet.New(raknet.Options{}), policy.ModeTerminate, func(*Settings) {})
	shared, all := exportAll(m.relay, m.now)
	other := *m.settings
	route := *other.Listeners[0].Route
	route.Name = "other"
	other.Listeners = []Listener{{
		Name: "other", Addr: secondAddr, Protocols: other.Listeners[0].Protocols, Route: &route,
	}}
	m.settings = &other
	r := New(&other, Options{Log: zerolog.Nop(), Bans: ratelimit.NewBans(banTerms)}, m, m.now)
	r.Attach(0, &simSocket{addr: secondAddr})
	i := BeginImport(r, m.now)
	open := func(addr netip.AddrPort) (netio.Socket, error) { return &simSocket{addr: addr}, nil }
	if err := i.shared(shared, open); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if err := i.session(one.bytes, one.sockets); err != nil {
			t.Fatal(err)
		}
	}
	i.end()
	if n := len(r.retired.list); n != 1 || r.retired.list[0].sessions != 3 {
		t.Fatalf("%d listeners are retired", n)
	}
	gone := r.retired.list[0].socket.(*simSocket)
	for _, s := range list(r, m.now, ListSessions{Limit: 9}) {
		if s.Route != "arena" || s.Listener != "play" || !s.Established {
			t.Errorf("%+v", s)
		}
	}
	m.relay, m.listener = r, gone
	for i := range 3 {
		m.speak(massAddr(i))
	}
	r.Drain(m.now)
	for end := m.now.Add(10 * time.Second); m.now.Before(end); m.now = m.now.Add(50 * time.Millisecond) {
		r.Advance(m.now)
		m.flush()
	}
	if !r.Drained() || !gone.closed {
		t.Errorf("drained %v, %d sessions; the listener is closed: %v", r.Drained(), r.table.Len(), gone.closed)
	}
}

// successor returns an empty Relay with the same settings.
func (m *mass) successor(t testing.TB) *Relay {
	t.Helper()
	r := New(m.settings, Options{Log: zerolog.Nop(), Bans: ratelimit.NewBans(banTerms)}, m, m.now)
	r.Attach(0, &simSocket{addr: listenerAddr})
	return r
}

func pendingOf(r *Relay) (n int) {
	for e := range r.table.All {
		if e.Value.isPending() {
			n++
		}
	}
	return n
}
