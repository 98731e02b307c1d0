package relay

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// watch returns a function that gives a Relay a datagram, and checks that the datagram is read by a connection,
// answered, or dropped for a counted reason. It counts once.
func (p *performance) watch(n *relayNode) func(time.Time, netio.Socket, netip.AddrPort, []byte) {
	return func(now time.Time, s netio.Socket, from netip.AddrPort, datagram []byte) {
		r := n.relay
		conn, pending := connOf(r, s, from)
		if pending {
			r.Receive(now, s, from, datagram)
			return
		}
		c, owned := &r.counters, s.Owner() != nil
		x, closes := s.Owner().(*closingConn)
		late := closes && x.of.Value.life == seeking
		dropped := c.Drops[stats.DropClosing]
		in, before := c.Clients.In.Messages+c.Upstreams.In.Messages, fateOf(n, conn)
		passed := p.watchRelayed(n, s, from, datagram)
		handed := p.proxy.shared.handed.count.Load()
		r.Receive(now, s, from, datagram)
		passed()
		if !owned {
			return
		}
		if late && x.late <= maxLate && c.Drops[stats.DropClosing] > dropped {
			p.judge.Errorf("a player who waits for a server does not hear what the old one still says")
		}
		if got := c.Clients.In.Messages + c.Upstreams.In.Messages; got != in+1 && !closes {
			p.judge.Errorf("one datagram counts as %d", int64(got-in))
		}
		if !closes && fateOf(n, conn) == before && p.proxy.shared.handed.count.Load() == handed {
			p.judge.Errorf("a datagram from %v is neither read, answered nor counted as dropped: %x", from, datagram)
		}
	}
}

// watchRelayed returns a function that is called after a Relay has received a datagram. It checks that a relayed one
// has gone on unchanged, once, between the addresses of its session.
func (p *performance) watchRelayed(n *relayNode, s netio.Socket, from netip.AddrPort, datagram []byte) func() {
	r, before := n.relay, len(n.out)
	n.frames = n.frames[:0]
	up, down := r.counters.RelayedUp.Messages, r.counters.RelayedDown.Messages
	e, isDown := s.Owner().(*Entry)
	return func() {
		up, down = r.counters.RelayedUp.Messages-up, r.counters.RelayedDown.Messages-down
		if up+down == 0 {
			return
		}
		if l, ok := s.Owner().(*listener); ok {
			if e = l.find(from); e == nil {
				e = r.table.peek(session.Key{Listener: l.index, Client: from})
			}
		}
		if e == nil || !e.Value.isRelayed() || up+down != 1 || down == 1 != isDown {
			p.judge.Errorf("one datagram from %v was relayed %d times up and %d times down", from, up, down)
		}
		want := simDatagram{e.Value.listener.addr, e.Key.Client, datagram}
		if !isDown {
			want.from, want.to = e.Value.socket.Addr(), e.Value.socket.Peer()
		}
		times, isEdge := 0, e.Value.edge != nil
		if isEdge && isDown {
			p.checkWay(e, datagram, n.out[before:])
		}
		for _, got := range slices.Concat(n.out[before:], n.frames) { // a new session may end another one with goodbyes
			if got.from == want.from && (got.to == want.to || isEdge && isDown) && bytes.Equal(got.bytes, want.bytes) {
				times++
			}
		}
		if times != 1 {
			p.judge.Errorf("a datagram from %v went on to %v unchanged %d times, want once", from, want.to, times)
		}
	}
}

// fateOf returns a number that each datagram changes.
func fateOf(n *relayNode, conn codec.Conn) uint64 {
	c := &n.relay.counters
	fate := c.Opened + c.Closed + uint64(n.sends) + c.RelayedUp.Messages + c.RelayedDown.Messages
	for _, drops := range c.Drops {
		fate += drops
	}
	if conn != nil {
		figures := conn.Stats()
		fate += figures.Received + figures.Dropped
	}
	return fate
}

// connOf returns the connection that reads a datagram, or nil, and whether it is not restored yet.
func connOf(r *Relay, s netio.Socket, from netip.AddrPort) (conn codec.Conn, pending bool) {
	switch owner := s.Owner().(type) {
	case *Entry:
		if owner.Value.isRelayed() {
			return nil, false
		}
		return owner.Value.upstream.Conn, owner.Value.isPending()
	case *listener:
		if e := r.table.peek(session.Key{Listener: owner.index, Client: from}); e != nil && !e.Value.isRelayed() {
			return e.Value.client.Conn, e.Value.isPending()
		}
	case *closingConn:
		return owner.conn, false
	}
	return nil, false
}

// checkBounds holds every table of the Relays to its bound. A Relay that gets full while sessions wait for their
// clients takes these in.
func (p *performance) checkBounds() {
	total, identities := 0, len(p.proxy.shared.presence.sessions)
	for _, n := range p.proxy.nodes {
		r := n.relay
		limits, open, half := &r.settings.Limits, r.table.Len(), r.table.HalfOpen()
		total += open
		if open > limits.Sessions+p.arrived || half > limits.HalfOpen {
			p.judge.Errorf("%d sessions and %d half-open ones, more than the limits", open, half)
		}
		if c := &r.counters; c.Opened-c.Closed != uint64(open) {
			p.judge.Errorf("%d sessions opened, %d closed, %d in the table", c.Opened, c.Closed, open)
		}
		if n := r.guard.Counts(); n.Addresses > open || n.Networks > open || n.Sessions != open {
			p.judge.Errorf("counted for %d sessions are %+v", open, n)
		}
		if r.journal.wrong > 0 {
			p.judge.Errorf("%d states that could not follow", r.journal.wrong)
		}
		if k := r.known.count; k < 0 || k > open {
			p.judge.Errorf("%d known clients of %d sessions", k, open)
		}
		if len(r.closing.list) > maxClosing || len(r.journal.causes) > open || len(r.watches) > open {
			p.judge.Errorf("%d closing connections, %d causes, %d watches of %d sessions", len(r.closing.list),
				len(r.journal.causes), len(r.watches), open)
		}
		for e := range r.table.All {
			if e.Value.isRelayed() {
				continue // its game asks for the proof
			}
			if s := &e.Value; s.life.isEnding() && !s.dialBy.IsZero() {
				p.judge.Errorf("session %d says goodbye, and still waits for a server's first answer", s.serial)
			}
			if e.Key.Client.Addr().As4()[1] == strangers && e.Value.isKnown() && !e.Value.trust.MayBeSilent() {
				p.proved(e)
			}
		}
		for _, route := range r.routes {
			if ids := route.ids; ids.count < 0 || ids.count > open {
				p.judge.Errorf("%d client IDs of %d sessions", ids.count, open)
			}
		}
	}
	if identities > total {
		p.judge.Errorf("%d identities of %d sessions", identities, total)
	}
}

// checkEmpty asserts that every table is empty after a drain.
func (p *performance) checkEmpty() {
	for _, n := range p.proxy.nodes {
		r := n.relay
		if open := r.table.Len(); open > 0 || len(r.closing.list) > 0 {
			p.judge.Errorf("%d sessions and %d closing connections are left after the drain", open, len(r.closing.list))
		}
		if n := r.guard.Counts(); n.Addresses+n.Networks+n.Sessions+n.Queued != 0 {
			p.judge.Errorf("counted after the drain are %+v", n)
		}
		if len(r.journal.causes)+len(r.watches)+r.known.count+r.waiting.inLine+len(r.paths.byKey) != 0 {
			p.judge.Errorf("%d causes, %d watches, %d known clients, %d waiting and %d paths are left after the drain",
				len(r.journal.causes), len(r.watches), r.known.count, r.waiting.inLine, len(r.paths.byKey))
		}
		if n := r.held.Figures().Overall; n != 0 || r.held.Addresses() != 0 {
			p.judge.Errorf("%d bytes of %d addresses are held after the drain", n, r.held.Addresses())
		}
		for _, route := range r.routes {
			if route.ids.count != 0 {
				p.judge.Errorf("%d client IDs are taken after the drain", route.ids.count)
			}
		}
		for _, s := range n.sockets {
			if _, ok := s.owner.(*Entry); ok && !s.closed {
				p.judge.Errorf("a socket to a server is left after the drain")
			}
		}
	}
	if left := len(p.proxy.shared.presence.sessions); left > 0 {
		p.judge.Errorf("%d identities are left after the drain", left)
	}
	for _, sc := range p.scenes {
		if joins := p.proxy.settings.Listeners[p.indexOf(sc)].Joins; joins != nil {
			joins.Expire(p.Now().Add(simulatedJoins.Patience)) // they hold places
		}
		for _, s := range p.proxy.shared.Pools.Get(sc.route.Upstream.Name).Status(p.Now()) {
			if s.Sessions != 0 {
				p.judge.Errorf("server %v counts %d sessions after the drain", s.Addr, s.Sessions)
			}
		}
	}
}

// checkReason holds the end that a player is told to its cause in the story (docs/bridging.md).
func (p *performance) checkReason(s *seat, why codec.Reason) {
	if s.excused || s.suspect {
		return
	}
	if s.scene.relayed && s.cause != leaves { // the proxy is only silent, and a forged goodbye is believed in silence
		forged := why == codec.Closed && !s.forged.IsZero()
		if why != codec.TimedOut && why != codec.PoorConnection && (s.connected || why != codec.NoConnection) && !forged {
			p.judge.Errorf("relayed player %d was told %v after it %s", s.number, why, actNames[s.cause])
		}
		return
	}
	want := codec.Closed // RakNet, ENet and RUDP have no other goodbye
	switch name := s.dialogue.clients.Spec().Name; {
	case s.cause == leaves:
	case strings.HasPrefix(name, "riptide") && s.cause == drains:
		want = codec.ServerStopped
	case strings.HasPrefix(name, "riptide"), s.dialogue.clients.Spec().Closed:
		want = codec.Kicked
	}
	mayMiss := !p.lossy.IsZero() || !p.silent.IsZero() || s.cause == bans || s.early // the goodbye
	missed := mayMiss && (why == codec.TimedOut || why == codec.PoorConnection)
	refused := !s.connected && (why == codec.Rejected || why == codec.Banned) // while it joined
	unheard := !s.connected && mayMiss && why == codec.NoConnection           // also while it joined
	if why != want && !missed && !refused && !unheard {
		p.judge.Errorf("player %d of %s was told %v after it %s, want %v", s.number, s.dialogue.clients.Spec().Name, why,
			actNames[s.cause], want)
	}
}

// checkServersReason holds the end that a server is told to what the proxy tells it: its client has left.
func (p *performance) checkServersReason(conn *peer, why codec.Reason) {
	s := p.owners[conn]
	if s == nil || s.excused || s.suspect || conn.find(codec.Connected) == nil {
		return
	}
	if conn.count(codec.Disconnected) > 1 {
		p.judge.Errorf("the server of player %d was told of the end again: %v", s.number, why)
	}
	mayMiss := !p.lossy.IsZero() || !p.silent.IsZero() || !p.crashed.IsZero() || s.scene.relayed && s.cause != leaves
	mayMiss = mayMiss || s.cause == vanishes && s.reflects() // the server gives up the silent player before the proxy does
	missed := mayMiss && (why == codec.TimedOut || why == codec.PoorConnection)
	if why != codec.Closed && !missed {
		p.judge.Errorf("the %s server of player %d was told %v, want %v", s.dialogue.servers.Spec().Name, s.number, why,
			codec.Closed)
	}
}

// reflects reports whether the proxy shows the server of a session its player's silence.
func (s *seat) reflects() bool {
	can := func(p codec.Protocol) bool {
		name := p.Spec().Name
		return name == "enet" || strings.HasPrefix(name, "riptide")
	}
	return can(s.dialogue.clients) && can(s.dialogue.servers)
}

// proved judges a forged client that counts as proved. RUDP's proof has 15 bits, and Riptide's 16: one of many thousand
// replayed answers fits by chance, but not two in one game.
func (p *performance) proved(e *Entry) {
	name := e.Value.protocol.Spec().Name
	p.guessed[e.Key.Client] = true
	weak := name == "rudp" || strings.HasPrefix(name, "riptide")
	if !weak || len(p.guessed) > 1 {
		p.judge.Errorf("a forged %s client at %v counts as proved", name, e.Key.Client)
	}
}
