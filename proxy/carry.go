package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

// carry sends a message from one side to the other side.
func (r *Relay) carry(now time.Time, e *entry, to *side, d *bridge.Direction, m *codec.Message) {
	r.carrier.Carry(now, &to.Sender, d, m)
	r.carried(now, e)
}

// answered handles the fate of a message that was sent to a side.
func (r *Relay) answered(now time.Time, e *entry, s *side, d *bridge.Direction, ev *codec.Event) {
	r.carrier.Answered(now, &s.Sender, d, ev)
	r.carried(now, e)
}

// sendJoined sends the messages that wait to leave together, to both sides.
func (r *Relay) sendJoined(now time.Time, e *entry) {
	r.carrier.SendJoined(now, &e.Value.client.Sender)
	r.carrier.SendJoined(now, &e.Value.upstream.Sender)
	r.carried(now, e)
}

// carried handles the carrier's failures with messages of a session.
func (r *Relay) carried(now time.Time, e *entry) {
	for f, ok := r.carrier.Failure(); ok; f, ok = r.carrier.Failure() {
		r.drops.add(now, dropped{f.Why, e.Value.listener, e.Key.Client, f.Size, f.Err})
		if f.Ends {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
		}
	}
}
