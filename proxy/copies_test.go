package proxy

import (
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/simnet"
)

// TestCopiesOfOtherSessions hands sessions over after some of them have changed or ended since their copies. The
// clients of ended ones are away, or back in new sessions. The successor has the same books, and the players go on.
func TestCopiesOfOtherSessions(t *testing.T) {
	for _, m := range udpMembers(noRType) {
		t.Run(m.Spec().Name, func(t *testing.T) { copyOthers(t, m.Protocol, ModeTerminate) })
		t.Run(m.Spec().Name+", relayed", func(t *testing.T) { copyOthers(t, m.Protocol, ModeRelay) })
	}
}

func copyOthers(t *testing.T, protocol codec.Protocol, mode Mode) {
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
	old.journal.causes[old.table.Get(w.keyOf(leave[0])).Value.serial] = "a reason"
	old.journal.causes[old.table.Get(w.keyOf(change[1])).Value.serial] = "a reason"
	end := func(players []*player) {
		t.Helper()
		r := w.proxy.relay
		for _, p := range players {
			w.Remove(p.addr) // it hears nothing, and says nothing more
			if err := r.kick(w.Now(), r.table.Get(w.keyOf(p)), ""); err != nil {
				t.Fatal(err)
			}
		}
		isHere := func(p *player) bool { return r.table.Get(w.keyOf(p)) != nil }
		w.await("gone", 10*time.Second, func() bool { return !slices.ContainsFunc(players, isHere) })
	}
	pass()
	if first := w.copies[0].sessions(t); first != 5*kinds {
		t.Fatalf("the first pass copies %d sessions, want %d", first, 5*kinds)
	}
	end(append(leave, back...))
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
		if e, ok := s.owner.(*entry); ok && e.Value.listener == fresh.listeners[0] && fresh.table.Get(e.Key) != e {
			t.Errorf("the socket %v has the session of %v, which the table does not have", s.addr, e.Key.Client)
		}
	}
	for e := range fresh.table.All {
		if e.Value.socket.Owner() != any(e) {
			t.Errorf("the socket of the session of %v has another owner", e.Key.Client)
		}
	}
	playing := append(append(stay, change...), back...)
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
