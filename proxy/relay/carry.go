package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

// received judges a message that a side has received, counts it, and carries it to the other side. It may change m.
func (r *Relay) received(now time.Time, e *Entry, from policy.Direction, m *codec.Message) {
	d := e.Value.bridge.From(from)
	if h := e.Value.hold; h != nil && from == policy.FromUpstream && m.Mode.IsReliable() {
		h.departure.heard = now
	}
	way := d.Way(m)
	if way == nil && d.Opens() {
		openEnvelope(r, now, e, from, d, m)
		return
	}
	r.receivedOne(now, e, from, m, m.Payload, way)
}

// receivedOne does the work of received for a message without an envelope. head begins it on the wire. It reports false
// if the session ends.
func (r *Relay) receivedOne(now time.Time, e *Entry, from policy.Direction, m *codec.Message, head []byte,
	way *bridge.Way) bool {
	s := &e.Value
	r.countMessage(s, from, m)
	r.sockets.tap.inside(e, from, nethernet.InsideMessage, m.Payload)
	if s.life.isEnding() {
		r.drops.count(now, dropped{stats.DropClosing, s.listener, e.Key.Client, len(m.Payload), nil})
		return false
	}
	if !r.mayCross(now, e, from, m, head) {
		return true
	}
	if s.route.modules.any() {
		throughModules(r, now, e, from, m, way, 0)
	} else {
		cross(r, now, e, from, m, way)
	}
	return true
}

// countMessage counts a message that a side has received.
func (r *Relay) countMessage(s *link, from policy.Direction, m *codec.Message) {
	r.watches.count(s.serial, from, m)
	if from == policy.FromClient {
		s.fromClient.Add(m)
		r.counters.FromClients.Add(m)
		s.tally.FromClients[m.Mode].Add(m)
		return
	}
	s.fromServer.Add(m)
	r.counters.FromUpstreams.Add(m)
	s.tally.FromUpstreams[m.Mode].Add(m)
}

// answered handles the fate of a message that was sent to a side.
func (r *Relay) answered(now time.Time, e *Entry, s *side, d *bridge.Direction, ev *codec.Event) {
	r.carrier.Answered(now, &s.Sender, d, ev)
	r.carried(now, e)
}

// sendJoined sends the messages that wait to leave together, to both sides.
func (r *Relay) sendJoined(now time.Time, e *Entry) {
	r.carrier.SendJoined(now, &e.Value.client.Sender)
	r.carrier.SendJoined(now, &e.Value.upstream.Sender)
	r.carried(now, e)
}

// carried handles the carrier's failures with messages of a session.
func (r *Relay) carried(now time.Time, e *Entry) {
	for r.carrier.HasFailed() {
		f := r.carrier.Failure()
		r.failed(now, e, &f)
	}
}

// failed handles one message that was not sent on.
func (r *Relay) failed(now time.Time, e *Entry, f *bridge.Failure) {
	r.drops.count(now, dropped{f.Why, e.Value.listener, e.Key.Client, f.Size, f.Err})
	if f.Ends {
		reason := codec.Overflow
		if f.Why == stats.DropUndeclared {
			reason = codec.Violation
		}
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: reason})
	}
}
