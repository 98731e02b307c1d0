package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
)

// A NetherNet client on a route that terminates has a stack: DTLS and SCTP, which run beside the loop. The Relay is
// ICE's agent. It admits datagrams as for an edge, answers checks itself, and gives DTLS to the stack. When the stack
// has datagrams or messages for the Relay, it puts its end on a list and wakes the loop.

// beginStacked makes the session of a join whose player has come.
func (r *Relay) beginStacked(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte, t *joining.Ticket) error {
	if l.stacks == nil || t.Peer == nil { // the route has another mode since the join
		return errNoJoin
	}
	g := new(clientStack)
	stack, err := l.stacks.Accept(t.Peer, func() { r.wake(g) })
	if err != nil {
		return err
	}
	g.Conn = nethernet.NewConn(stack, false)
	e, err := r.add(now, l, entry, s, from, &terminated{
		bridge: entry.bridge, client: side{Sender: bridge.Sender{Conn: g.Conn}}, stack: g,
		trust: admission.Trust{Proof: codec.ProvedAccept}, expires: now.Add(r.settings.HandshakeTimeout),
	})
	if err != nil {
		g.Abandon()
		return err
	}
	g.of, e.Value.edge = e, &edge{ticket: t}
	l.joins.sessions[t] = e
	r.sockets.tap.joined(e, l, t)
	r.settle(now, e)
	r.table.reviewTrust(e, &r.known, false)
	r.fromEdge(now, e, s, from, datagram)
	return nil
}

// takeStacked handles a datagram that a client of a stack has sent.
func (r *Relay) takeStacked(now time.Time, e *Entry, sock netio.Socket, from netip.AddrPort, datagram []byte) {
	s := &e.Value
	s.heard = s.since(now)
	r.drops.has(stats.FateTaken)
	if j := s.listener.joins; nethernet.IsSTUN(datagram) {
		if j.binding.Class == nethernet.Request {
			answer := j.integrity.AppendSuccess(r.sockets.Buffer(), j.binding.ID, from, s.edge.ticket.Told().ServerPassword)
			r.counters.Clients.Out.Count(answer)
			r.sockets.Send(sock, from, answer)
		}
		r.dirty.markSides(e, clientSide) // the deadline of its silence has moved
		return
	}
	if !s.client.Live() {
		return
	}
	r.follow(e)
	if err := s.client.Conn.Receive(now, datagram); err != nil {
		r.drops.add(now, dropped{stats.DropOf(err), s.listener, from, len(datagram), err})
		return
	}
	r.settleSides(now, e, clientSide)
	r.accepted(now, e, len(datagram))
}

// wake has the loop take what a stack or a question has. It is safe for concurrent use.
func (r *Relay) wake(s stacked) {
	r.ready.put(s)
	if r.pools.Wake != nil {
		r.pools.Wake(r.shard.index)
	}
}

// takeReady lets the sessions go on whose stacks have something.
func (r *Relay) takeReady(now time.Time) {
	for _, g := range r.ready.take() {
		g.take(r, now)
	}
}

// take implements stacked.
func (c *clientStack) take(r *Relay, now time.Time) {
	e := c.of
	if e == nil || e.Value.life == gone {
		return
	}
	connected := e.Value.client.up
	c.Advance(now)
	if end := c.End(); end.Err != nil {
		r.journal.because(e, end.Err.Error())
	}
	r.settleSides(now, e, clientSide)
	r.table.reviewTrust(e, &r.known, connected)
}

// joinAgain is what players read whose sessions cannot go on.
const joinAgain = "The proxy has been replaced. Please join again."

// HoldStacked begins no sessions that no successor can have, or begins them again. It returns the number of those
// whose players cannot read a goodbye yet: their channels are half-open.
func (r *Relay) HoldStacked(hold bool) (opening int) {
	r.replaced = hold
	r.eachStacked(func(e *Entry) {
		if !e.Value.life.isEnding() && clientStackOf(&e.Value).isOpening() {
			opening++
		}
	})
	return opening
}

// isOpening reports whether the channels of a client are half-open.
func (c *clientStack) isOpening() bool { return c != nil && !c.IsOpen() }

// DismissStacked tells players to join again whose sessions the successor does not have. It is called once the
// successor runs, so nothing else may happen in this Relay. The sessions of half-open channels are left behind.
func (r *Relay) DismissStacked(now time.Time) (dismissed, behind int) {
	r.eachStacked(func(e *Entry) {
		if !e.Value.life.isEnding() && !clientStackOf(&e.Value).isOpening() {
			dismissed++
			r.dismiss(now, e, codec.Goodbye{Reason: codec.ServerStopped, Text: joinAgain, Deaf: true})
		}
	})
	r.Flush(now)
	return dismissed, r.HoldStacked(true)
}

// open returns the live sides of a session that have no stack.
func (s *link) open() (open []*side) {
	if clientStackOf(s) == nil && s.client.Live() {
		open = append(open, &s.client)
	}
	if s.call == nil && s.upstream.Live() {
		open = append(open, &s.upstream)
	}
	return open
}

// PartStacked sends what dismissed sessions have to say, and returns the number of sessions that are not over.
func (r *Relay) PartStacked(now time.Time) (left int) {
	r.takeReady(now)
	r.eachStacked(func(e *Entry) {
		if !e.Value.life.isEnding() {
			return
		}
		left++
		for _, s := range e.Value.open() {
			s.Down = true // its goodbye has left, and no answer comes here
		}
		for _, s := range [...]*side{&e.Value.client, &e.Value.upstream} {
			if s.Live() {
				s.Conn.Advance(now) // a lost goodbye is said again
			}
		}
		r.settleSides(now, e, bothSides)
	})
	r.Flush(now)
	return left
}

func (r *Relay) eachStacked(do func(e *Entry)) {
	for _, l := range slices.Concat(r.listeners, r.retired.list) {
		if l.joins == nil {
			continue
		}
		for _, e := range l.joins.sessions {
			if clientStackOf(&e.Value) != nil {
				do(e)
			}
		}
	}
	for c := range r.calls.all {
		if clientStackOf(&c.of.Value) == nil {
			do(c.of)
		}
	}
}
