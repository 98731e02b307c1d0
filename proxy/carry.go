package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

// received judges a message that a side has received, counts it, and carries it to the other side. The messages of an
// envelope are judged and counted one by one, as if each had come alone. A session that ends reads no more of them.
func (r *Relay) received(now time.Time, e *entry, from filter.Direction, m *codec.Message) {
	p := &e.Value
	to, d := &p.upstream, &p.bridge.ToServer
	if from == filter.FromUpstream {
		to, d = &p.client, &p.bridge.ToClient
		if p.hold != nil && m.Mode.IsReliable() {
			p.hold.departure.heard = now
		}
	}
	var one codec.Message
	parts := d.Parts(m)
	for parts.Next(&one) {
		r.countMessage(p, from, &one)
		if p.ending {
			r.drops.count(now, dropped{stats.DropClosing, p.listener, e.Key.Client, len(one.Payload), nil})
			return
		}
		if r.mayCross(now, e, from, &one, parts.Head(&one)) {
			r.carrier.Carry(now, &to.Sender, d, &one)
			r.carried(now, e)
		}
	}
	if f, failed := d.Unread(&parts); failed {
		r.countMessage(p, from, m)
		r.failed(now, e, &f)
	}
}

// countMessage counts a message that a side has received.
func (r *Relay) countMessage(p *session, from filter.Direction, m *codec.Message) {
	r.watches.count(p.serial, from, m)
	if from == filter.FromClient {
		p.fromClient.Add(m)
		r.counters.FromClients.Add(m)
		p.tally.FromClients[m.Mode].Add(m)
		return
	}
	p.fromServer.Add(m)
	r.counters.FromUpstreams.Add(m)
	p.tally.FromUpstreams[m.Mode].Add(m)
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
		r.failed(now, e, &f)
	}
}

// failed handles one message that was not sent on.
func (r *Relay) failed(now time.Time, e *entry, f *bridge.Failure) {
	r.drops.count(now, dropped{f.Why, e.Value.listener, e.Key.Client, f.Size, f.Err})
	if f.Ends {
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
	}
}
