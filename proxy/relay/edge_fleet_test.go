package relay

import (
	"testing"

	"tidegate/internal/stray"
	"tidegate/proxy/stats"
)

// TestEdgeFromFleet has another node pass on what comes from a client's two addresses, and from a stranger.
func TestEdgeFromFleet(t *testing.T) {
	w := newEdge(t)
	ticket := w.join("a")
	w.hears(playerAddr(1), w.request(ticket, true))
	w.hears(playerAddr(2), w.request(ticket, false))
	w.answers(0, edgeRecord)
	w.hears(playerAddr(1), edgeRecord)
	passes := func(from int, datagram []byte) bool {
		w.out = w.out[:0]
		d := stray.Datagram{Listener: w.relay.listeners[0].id, Client: playerAddr(from), Bytes: datagram}
		w.relay.fromFleet(w.now, "ams2", 0, &d)
		return len(w.out) == 1 && w.out[0].to == edgeTarget
	}
	if !passes(1, edgeRecord) || !passes(2, edgeRecord) || !passes(2, w.request(ticket, true)) {
		t.Error("a datagram of the client is lost")
	}
	before := w.relay.counters.Drops[stats.DropUnknownProtocol]
	other := w.join("b")
	if passes(1, w.request(other, true)) || w.relay.counters.Drops[stats.DropUnknownProtocol] != before+1 {
		t.Error("a request of another join passes")
	}
}

// TestStrangerTakesNoArrival has strangers ask for a session that waits for its client after a journey. They know the
// names of the join, or have recorded a request. Only the client's own request takes the session to a loop.
func TestStrangerTakesNoArrival(t *testing.T) {
	w := newEdge(t)
	ticket := w.join("a")
	recorded := w.request(ticket, true)
	w.hears(playerAddr(1), recorded)
	w.answers(0, edgeRecord)
	w.hears(playerAddr(1), edgeRecord)
	moved := w.request(ticket, true)
	names := withoutPassword(w.request(ticket, true))
	e := w.relay.atEdge(w.now, w.relay.listeners[0], playerAddr(1))
	b, err := w.relay.takeOut(w.now, e)
	if err == nil {
		err = ask(w.relay, w.now, &PutInSession{Record: b})
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, datagram := range map[string][]byte{"names": names, "a recorded request": recorded} {
		w.hears(strangerAddr(1), datagram)
		if w.relay.Len() != 0 || w.relay.arrivals.count.Load() != 1 {
			t.Errorf("%s take the session", name)
		}
	}
	if out := w.hears(playerAddr(2), moved); len(out) != 1 || w.relay.Len() != 1 {
		t.Errorf("the client's request became %v, and %d sessions", out, w.relay.Len())
	}
}
