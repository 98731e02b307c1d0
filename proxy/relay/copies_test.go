package relay

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
)

// TestCopiesOfOtherSessions hands sessions over after some of them have changed or ended since their copies. The
// clients of ended ones are away, or back in new sessions. The successor has the same books, and the players go on.
func TestCopiesOfOtherSessions(t *testing.T) {
	for _, m := range udpMembers(noRType) {
		t.Run(m.Spec().Name, func(t *testing.T) { copyOthers(t, m.Protocol, policy.ModeTerminate) })
		t.Run(m.Spec().Name+", relayed", func(t *testing.T) { copyOthers(t, m.Protocol, policy.ModeRelay) })
	}
}

func copyOthers(t *testing.T, protocol codec.Protocol, mode policy.Mode) {
	route := plainRoute(protocol)
	route.Mode = mode
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, protocol, route)
	const kinds = 2 // of sessions with each fate: one of two copies enters at once
	join := func(n int) (all []*player) {
		for range n {
			all = append(all, w.connect(codec.Hello{Identity: uint64(1 + w.players)}))
		}
		return all
	}
	stay, change, leave, leaveLate, back := join(kinds), join(kinds), join(kinds), join(kinds), join(kinds)
	w.Run(2 * time.Second)
	old := w.proxy.relay
	old.precopy.start(nil)
	pass := func() {
		w.copies = append(w.copies, copyPass(old, w.Now()))
		if n := len(w.copies[len(w.copies)-1].sockets); n != old.table.Len() || n < 4*kinds {
			t.Fatalf("a pass over %d of %d sessions", n, old.table.Len())
		}
	}
	for _, p := range append(slices.Clone(leave), change[1]) {
		old.journal.causes[old.table.peek(w.keyOf(p)).Value.serial] = "a reason"
	}
	end := func(players []*player) {
		t.Helper()
		r := w.proxy.relay
		for _, p := range players {
			w.Remove(p.addr) // it hears nothing, and says nothing more
			if err := r.kick(w.Now(), r.table.peek(w.keyOf(p)), ""); err != nil {
				t.Fatal(err)
			}
		}
		isHere := func(p *player) bool { return r.table.peek(w.keyOf(p)) != nil }
		w.await("gone", 10*time.Second, func() bool { return !slices.ContainsFunc(players, isHere) })
	}
	pass()
	if first := w.copies[0].sessions(t); first != 5*kinds {
		t.Fatalf("the first pass copies %d sessions, want %d", first, 5*kinds)
	}
	end(slices.Concat(leave, back))
	w.Run(time.Second) // goodbyes that are still under way arrive
	for i, p := range back {
		again := w.joinFrom(p.addr, codec.Hello{Identity: uint64(100 + i)})
		w.await("back", 10*time.Second, func() bool { return again.find(codec.Connected) != nil })
		back[i] = again
	}
	w.Run(2 * time.Second)
	pass()
	end(leaveLate)
	echo := func(p *player) {
		t.Helper()
		before := len(p.received())
		w.send(&p.peer, codec.Message{
			Payload: []byte{0x86, 1}, Mode: strongest(protocol), ID: 7, HasID: protocol.Spec().IDs == codec.IDBeside,
		})
		w.await("echoed", 10*time.Second, func() bool { return len(p.received()) > before })
	}
	for _, p := range change {
		echo(p)
	}
	w.replaceRelay()
	fresh := w.proxy.relay
	for _, s := range w.proxy.sockets {
		if e, ok := s.owner.(*Entry); ok && e.Value.listener == fresh.listeners[0] && fresh.table.peek(e.Key) != e {
			t.Errorf("the socket %v has the session of %v, which the table does not have", s.addr, e.Key.Client)
		}
	}
	for e := range fresh.table.All {
		if e.Value.socket.Owner() != any(e) {
			t.Errorf("the socket of the session of %v has another owner", e.Key.Client)
		}
	}
	playing := slices.Concat(stay, change, back)
	if fresh.table.Len() != len(playing) {
		t.Errorf("%d sessions, want %d", fresh.table.Len(), len(playing))
	}
	for _, p := range playing {
		echo(p)
	}
	end(playing)
	if n := len(fresh.presence.sessions); n > 0 {
		t.Errorf("%d identities are left", n)
	}
	for what, n := range accountOf(fresh) {
		if n != 0 {
			t.Errorf("%d of %s are left", n, what)
		}
	}
	for _, s := range fresh.pools.Get(route.Upstream.Name).Status(w.Now()) {
		if s.Sessions != 0 {
			t.Errorf("server %v counts %d sessions", s.Addr, s.Sessions)
		}
	}
}

// importing begins the import of all sessions in a new Relay, which has taken the copies.
func (w *world) importing(copies ...copiedPass) (i *Importer, records []savedRecord) {
	w.t.Helper()
	shared, records := exportAll(w.proxy.relay, w.Now())
	r := New(w.settings, Options{Seed: 99, Log: zerolog.Nop()}, w.proxy, w.Now())
	r.Attach(0, w.proxy.sockets[listenerAddr])
	i = BeginImport(r, w.Now())
	takeCopies(w.t, i, 1, copies)
	if err := i.shared(shared, noSocket); err != nil {
		w.t.Fatal(err)
	}
	return i, records
}

// TestCopiesThatEnterLate asserts that sessions with a stream or a path enter at the standstill only: a path has an
// order.
func TestCopiesThatEnterLate(t *testing.T) {
	stream := streamed("riptide-2.2")
	route := defaultRoute(stream.Protocol)
	route.Upstream.Transport = stream.transport
	for name, w := range map[string]*world{
		"path": paced(t, raknet6(), raknet6(), func(*Upstream) {}),
		"stream": newWorldWith(t, 1, simnet.Weather{}, stream.Protocol, route, func(s *Settings) {
			s.Listeners[0].Transport = stream.transport
		}),
	} {
		const players = 2
		for range players {
			w.connect(codec.Hello{Identity: uint64(1 + w.players)})
		}
		w.Run(2 * time.Second)
		w.proxy.relay.precopy.start(nil)
		copies := copyPass(w.proxy.relay, w.Now())
		if n := copies.sessions(t); n != players {
			t.Fatalf("%s: %d sessions are copied", name, n)
		}
		i, records := w.importing(copies)
		if n := i.relay.table.Len(); n != 0 {
			t.Errorf("%s: %d sessions enter before the standstill", name, n)
		}
		keep(i, records)
		for _, one := range records {
			if err := one.enter(i); err != nil || one.kept == 0 {
				t.Errorf("%s: %v, copy %v", name, err, one.kept)
			}
		}
		onPaths := 0
		for _, p := range i.relay.paths.byKey {
			onPaths += p.sessions
		}
		if n := i.relay.table.Len(); n != players || name == "path" && onPaths != players {
			t.Errorf("%s: %d sessions, %d on paths, want %d", name, n, onPaths, players)
		}
	}
}

// socketless is a Handover that has no socket.
type socketless struct{ netio.Handover }

func (socketless) Named([]byte) (netio.Socket, []byte) { return nil, nil }

// TestCopyWithoutItsSocket asserts that a session without a socket at the standstill is lost and leaves nothing behind.
func TestCopyWithoutItsSocket(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, riptide22(), defaultRoute(riptide22()))
	w.connect(codec.Hello{})
	w.Run(2 * time.Second)
	w.proxy.relay.precopy.start(nil)
	copies := copyPass(w.proxy.relay, w.Now())
	i, records := w.importing(copies)
	id := records[0].kept
	if i.relay.table.Len() != 1 || id == 0 {
		t.Fatalf("%d sessions enter before the standstill, copy %v", i.relay.table.Len(), id)
	}
	keep(i, records)
	i.copies[id].names = []byte{1}
	if _, err := i.next(binary.AppendUvarint(nil, uint64(id)), nil, socketless{}, nil); err != errNoSocket {
		t.Errorf("the import says %v", err)
	}
	if n := i.relay.table.Len(); n != 0 {
		t.Errorf("%d sessions stay", n)
	}
	for what, n := range accountOf(i.relay) {
		if n != 0 {
			t.Errorf("%d of %s are left", n, what)
		}
	}
}

// fragile is a protocol whose restored connections count what they do.
type fragile struct {
	codec.Protocol
	calls map[string]int
}

type fragileConn struct {
	codec.Conn
	calls map[string]int
}

func (p *fragile) Restore(now time.Time, from codec.Addresser, b []byte) (codec.Conn, error) {
	conn, err := p.Protocol.Restore(now, from, b)
	return fragileConn{conn, p.calls}, err
}

func (c fragileConn) Receive(now time.Time, b []byte) error {
	c.calls["receive"]++
	return c.Conn.Receive(now, b)
}

func (c fragileConn) Advance(now time.Time) {
	c.calls["advance"]++
	c.Conn.Advance(now)
}

func (c fragileConn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	b, ok := c.Conn.Transmit(now, b)
	if ok {
		c.calls["transmit"]++
	}
	return b, ok
}

// TestRehearsal plays the first moments of each copied session at the successor before the standstill. A release that
// ends by them so leaves its predecessor all players. The sessions go on as before.
func TestRehearsal(t *testing.T) {
	for _, m := range udpMembers(noRType) {
		t.Run(m.Spec().Name, func(t *testing.T) {
			p := &fragile{m.Protocol, make(map[string]int)}
			route := plainRoute(m.Protocol)
			route.Mode = policy.ModeTerminate
			w := newWorld(t, 1, simnet.Weather{}, m.Protocol, route)
			const players = 2 // one of two copies enters at once
			for i := range uint64(players) {
				w.connect(codec.Hello{Identity: 1 + i})
			}
			w.Run(2 * time.Second)
			w.proxy.relay.precopy.start(nil)
			w.copies = append(w.copies, copyPass(w.proxy.relay, w.Now()))
			w.settings.Listeners[0].Protocols = []codec.Protocol{p}
			w.settings.Listeners[0].Route.Upstream.Protocol = p
			w.replaceRelay()
			for _, what := range []string{"receive", "advance", "transmit"} {
				if p.calls[what] == 0 {
					t.Errorf("no %s before the standstill: %v", what, p.calls)
				}
			}
			w.Run(2 * time.Second)
			if n := w.proxy.relay.table.Len(); n != players {
				t.Errorf("%d sessions go on", n)
			}
		})
	}
}

// TestRehearsalsAreBounded plays a bounded number of copied sessions before the standstill, and restores the others.
func TestRehearsalsAreBounded(t *testing.T) {
	p := &fragile{Protocol: raknet6()}
	w := newWorld(t, 1, simnet.Weather{}, p.Protocol, defaultRoute(p.Protocol))
	for i := range uint64(3) {
		w.connect(codec.Hello{Identity: 1 + i})
	}
	w.Run(2 * time.Second)
	w.proxy.relay.precopy.start(nil)
	copies := []copiedPass{copyPass(w.proxy.relay, w.Now())}
	w.settings.Listeners[0].Protocols = []codec.Protocol{p}
	played := func(before int) (sessions, datagrams int) {
		p.calls = make(map[string]int)
		r := New(w.settings, Options{Seed: 99, Log: zerolog.Nop()}, w.proxy, w.Now())
		r.Attach(0, w.proxy.sockets[listenerAddr])
		i := BeginImport(r, w.Now())
		i.played = before
		takeCopies(t, i, 1, copies)
		if len(i.copies) != 3 {
			t.Errorf("%d copies", len(i.copies))
		}
		return i.played - before, p.calls["transmit"]
	}
	sessions, all := played(0)
	last, some := played(mostRehearsals - 1)
	none, silent := played(mostRehearsals)
	if sessions < 2 || last != 1 || none != 0 || some == 0 || some >= all || silent != 0 {
		t.Errorf("played %d, %d and %d sessions with %d, %d and %d datagrams", sessions, last, none, all, some, silent)
	}
}

// TestCopyWithAnIDThatIsTaken copies a session whose client ID another copied session had, which has ended since. Both
// copies are at the successor. At the standstill the second session has the ID.
func TestCopyWithAnIDThatIsTaken(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, riptide22(), defaultRoute(raknet6()))
	first, second := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.Run(2 * time.Second)
	r := w.proxy.relay
	r.precopy.start(nil)
	copies := []copiedPass{copyPass(r, w.Now())}
	ended, lives := r.table.peek(w.keyOf(first)), r.table.peek(w.keyOf(second))
	if ended.Value.origin != ownID || lives.Value.origin != ownID {
		t.Fatal("the Relay has not given the client IDs")
	}
	id := ended.Value.id
	w.Remove(first.addr)
	if err := r.kick(w.Now(), ended, ""); err != nil {
		t.Fatal(err)
	}
	w.await("gone", 10*time.Second, func() bool { return r.table.Len() == 1 })
	route := lives.Value.route
	route.ids.free(lives.Value.id)
	if !route.ids.claim(id) {
		t.Fatal("the ID is not free")
	}
	lives.Value.id = id
	w.send(&second.peer, codec.Message{Payload: []byte{0x86, 1}, Mode: codec.Reliable, ID: 7, HasID: true})
	w.Run(2 * time.Second)
	copies = append(copies, copyPass(r, w.Now()))
	i, records := w.importing(copies...)
	keep(i, records)
	for _, one := range records {
		if err := one.enter(i); err != nil {
			t.Fatal(err)
		}
	}
	e := i.relay.table.peek(w.keyOf(second))
	if e == nil || i.relay.table.Len() != 1 || e.Value.origin != ownID || e.Value.id != id ||
		e.Value.route.ids.count != 1 {
		t.Errorf("%d sessions at the successor, %+v", i.relay.table.Len(), e)
	}
}

// TestCopyOfAnotherRoute hands a session to a successor whose route of that name leads to another upstream. Its copy
// enters before the predecessor's routes are known. At the standstill it is at its old upstream again.
func TestCopyOfAnotherRoute(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, riptide22(), defaultRoute(riptide22()))
	p := w.connect(codec.Hello{})
	w.Run(2 * time.Second)
	w.proxy.relay.precopy.start(nil)
	copies := copyPass(w.proxy.relay, w.Now())
	old := w.settings.Listeners[0].Route
	route, up := *old, *old.Upstream
	up.Name = "another"
	route.Upstream = &up
	w.settings.Listeners = slices.Clone(w.settings.Listeners)
	w.settings.Listeners[0].Route = &route
	i, records := w.importing(copies)
	if i.relay.table.Len() != 1 {
		t.Fatal("the copy does not enter before the standstill")
	}
	keep(i, records)
	for _, one := range records {
		if err := one.enter(i); err != nil {
			t.Fatal(err)
		}
	}
	e := i.relay.table.peek(w.keyOf(p))
	if e == nil || i.relay.table.Len() != 1 || e.Value.route.Upstream.Name != old.Upstream.Name {
		t.Errorf("%d sessions, %+v", i.relay.table.Len(), e)
	}
	for name, want := range map[string]int{old.Upstream.Name: 1, up.Name: 0} {
		n := 0
		for _, s := range i.relay.pools.Get(name).Status(w.Now()) {
			n += s.Sessions
		}
		if n != want {
			t.Errorf("upstream %q counts %d sessions, want %d", name, n, want)
		}
	}
}
