package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/saved"
	"tidegate/proxy/stats"
)

// throughModules gives a message to the modules of its session's route from number first on. What they leave of it, and
// what they send, goes on.
func throughModules(r *Relay, now time.Time, e *Entry, from policy.Direction, m *codec.Message, way *bridge.Way,
	first int) {
	s := &e.Value
	for i := first; i < len(s.route.modules.list); i++ {
		one := &s.route.modules.list[i]
		passes, sent, err := handle(r, now, s, one, from, m)
		for j := range sent {
			if s.life.isEnding() { // by one of the messages before
				r.drops.count(now, dropped{stats.DropClosing, s.listener, e.Key.Client, len(m.Payload), nil})
				return
			}
			made := &sent[j]
			d := s.bridge.From(made.From)
			throughModules(r, now, e, made.From, &made.Message, d.WayOfMade(&made.Message), i+1)
		}
		why := stats.DropModule
		switch {
		case err != nil:
			if r.counters.ModuleFailures++; one.Passes {
				continue
			}
			why = stats.DropModuleFailed
		case passes:
			continue
		case len(sent) > 0:
			return // it has changed or answered the message
		}
		r.drops.count(now, dropped{why, s.listener, e.Key.Client, len(m.Payload), err})
		return
	}
	cross(r, now, e, from, m, way)
}

// cross carries a message to the other side.
func cross(r *Relay, now time.Time, e *Entry, from policy.Direction, m *codec.Message, way *bridge.Way) {
	s := &e.Value
	to := &s.upstream.Sender
	if from == policy.FromUpstream {
		to = &s.client.Sender
	}
	r.carrier.Carry(now, to, s.bridge.From(from), m, way)
	r.carried(now, e)
}

// handle gives a message to a module, with what it keeps with the session.
func handle(r *Relay, now time.Time, s *link, one *loopModule, from policy.Direction, m *codec.Message) (passes bool,
	sent []bridge.Sent, err error) {
	c := &r.calling.call
	r.calling.message = *m
	*c = bridge.Call{
		Now: now, From: from, Session: uint64(s.serial), Message: &r.calling.message, State: s.kept.of(one.Name),
	}
	fresh := c.State == nil
	if fresh {
		c.State = &r.calling.kept
	}
	passes, err = one.Handle(c)
	if fresh && len(r.calling.kept) > 0 {
		s.kept.add(saved.Kept{Module: one.Name, Bytes: r.calling.kept})
		r.calling.kept = nil
	}
	return passes, c.Sent, err
}

// openEnvelope does the work of received for the messages of an envelope. They are judged and counted one by one, as if
// each had come alone. A session that ends reads no more of them.
func openEnvelope(r *Relay, now time.Time, e *Entry, from policy.Direction, d *bridge.Direction, m *codec.Message) {
	var one codec.Message
	parts := d.Parts(m)
	for parts.Next(&one) {
		if !r.receivedOne(now, e, from, &one, parts.Head(&one), nil) {
			return
		}
	}
	if f, failed := d.Unread(&parts); failed {
		r.countMessage(&e.Value, from, m)
		r.failed(now, e, &f)
	}
}
