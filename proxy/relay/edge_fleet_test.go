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
