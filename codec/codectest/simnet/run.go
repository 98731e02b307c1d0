package simnet

import (
	"net/netip"
	"time"
)

// Run lets the given virtual time pass. Input given to nodes before Run (a Send, say) is picked up at its start.
func (n *Net) Run(d time.Duration) {
	n.RunUntil(d, func() bool { return false })
}

// RunUntil runs until done returns true or limit has passed, and reports which. It calls done after every step; done
// must not change anything.
func (n *Net) RunUntil(limit time.Duration, done func() bool) bool {
	n.tb.Helper()
	end := n.now.Add(limit)
	n.touchAll()
	n.flush()
	for !n.halted {
		if done() {
			return true
		}
		if !n.step(end) {
			n.now = end
			return done()
		}
	}
	return false
}

// step serves everything that is due at the next moment. It returns false if that moment lies beyond end.
func (n *Net) step(end time.Time) bool {
	n.tb.Helper()
	next := n.nextMoment()
	if next.IsZero() || next.After(end) {
		return false
	}
	n.countIdle(next)
	if next.After(n.now) {
		n.now = next
	}
	for !n.queue.empty() && !n.queue.first().at.After(n.now) {
		n.serve(n.queue.pop())
	}
	for _, h := range n.hosts {
		if !h.deadline.IsZero() && !h.deadline.After(n.now) {
			h.node.Advance(n.now)
			h.touched = true
		}
	}
	n.flush()
	return true
}

// nextMoment returns the time of the next event or deadline; zero if there is none. The scan over all hosts is cheap
// for the hundreds of nodes in tests.
func (n *Net) nextMoment() time.Time {
	var next time.Time
	if !n.queue.empty() {
		next = n.queue.first().at
	}
	for _, h := range n.hosts {
		if !h.deadline.IsZero() && (next.IsZero() || h.deadline.Before(next)) {
			next = h.deadline
		}
	}
	return next
}

// countIdle stops a run in which virtual time stands still.
func (n *Net) countIdle(next time.Time) {
	n.tb.Helper()
	if next.After(n.now) {
		n.idleSteps = 0
		return
	}
	if n.idleSteps++; n.idleSteps == maxIdleSteps {
		n.halted = true
		n.tb.Errorf("simnet: busy loop: %d steps at virtual time %v", maxIdleSteps, n.Elapsed())
	}
}

// serve runs an action, or delivers a datagram and then overwrites it.
func (n *Net) serve(e event) {
	if e.action != nil {
		e.action()
		n.touchAll()
		return
	}
	h := n.byAddr[e.to]
	if h == nil {
		n.trace.add(n.Elapsed(), e.from, e.to, e.datagram, fate{kind: unreachable})
		n.queue.recycle(e.datagram)
		return
	}
	h.node.Receive(n.now, e.from, e.to, e.datagram)
	n.queue.recycle(e.datagram)
	h.touched = true
	h.deadline = h.node.NextTimeout()
}

func (n *Net) touchAll() {
	for _, h := range n.hosts {
		h.touched = true
	}
}

// flush runs the Transmit round of every host that had input, and reads its next deadline.
func (n *Net) flush() {
	for _, h := range n.hosts {
		if !h.touched {
			continue
		}
		h.touched = false
		for {
			datagram, from, to, ok := h.node.Transmit(n.now, n.scratch[:0])
			if !ok {
				break
			}
			n.send(from, to, datagram)
		}
		h.deadline = h.node.NextTimeout()
	}
}

// send puts a datagram through the weather of its path.
func (n *Net) send(from, to netip.AddrPort, datagram []byte) {
	if n.tap != nil {
		n.tap(from, to, datagram)
	}
	weather, state := n.weatherOf(path{from, to})
	var fates [2]fate
	copies := fates[:1]
	if weather.Duplication > 0 && n.rng.Float64() < weather.Duplication {
		copies = fates[:]
	}
	for i := range copies {
		f := weather.fateOf(n.rng, state, n.now, len(datagram))
		copies[i] = f
		n.trace.add(n.Elapsed(), from, to, datagram, f)
		if f.kind == arrives {
			arriving := n.queue.copyOf(datagram)
			weather.corrupt(n.rng, arriving)
			n.queue.push(event{at: n.now.Add(f.delay), from: from, to: to, datagram: arriving})
		}
	}
	state.note(n.now, copies...)
}
