package relay

import (
	"errors"
	"maps"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/ratelimit"
	"tidegate/session"
)

func (p *performance) act(a act) {
	d := time.Duration(a.n) * time.Millisecond
	sc, i := p.scenes[a.where/2%len(p.scenes)], a.where%2
	switch a.kind {
	case joins:
		p.enter(a.who)
	case weathers:
		p.changeSky(weatherKinds[a.n%len(weatherKinds)])
	case blackout:
		p.standStill(d, func() { p.SetWeather(simnet.Weather{Loss: 1}) }, func() { p.SetWeather(p.sky) })
	case stopsProxy:
		p.standStill(d, func() { p.proxy.stop(p.Now()) }, func() { p.proxy.resume(p.Now()) })
	case crashes:
		p.crash(sc.games[i], d)
	case freezes:
		p.silence(d)
		g := sc.games[i]
		g.busy = true
		p.After(d, func() { g.resume(p.Now()) })
	case refuses:
		sc.refusing[i] = later(sc.refusing[i], p.Now().Add(d))
	case garbles:
		p.garble(sc.games[i], a.n)
	case slows, cutsServer, cutsPlayers, shrinks, corrupts:
		p.disturb(a.kind, sc, i, d)
	case floods:
		p.flood(sc, a.n)
	case reloads:
		p.reload(a.n)
	case drains:
		p.drain(sc, i, d)
	case replaces:
		p.replaced = true
		p.precopy(a.n)
		p.replace()
	case fails:
		p.replaced = true
		p.fail(d)
	default:
		p.actOn(p.playing[a.who], a)
	}
}

// standStill lets time pass between begin and end.
func (p *performance) standStill(d time.Duration, begin, end func()) {
	p.silence(d)
	begin()
	p.Run(d)
	end()
}

// actOn lets something happen to a player that plays.
func (p *performance) actOn(s *seat, a act) {
	if s == nil || s.over || !s.connected {
		return
	}
	e := p.entryOf(s)
	switch a.kind {
	case says:
		p.speak(s, &s.peer, &s.up, true, a.n)
	case hears:
		p.answer(s, e, a.n)
	case leaves:
		p.speak(s, &s.peer, &s.up, true, a.n%lastWords)
		p.sendAway(s, a.kind)
		p.part(s)
		s.conn.Close(p.Now(), codec.Goodbye{Reason: codec.Closed})
	case vanishes:
		s.excused = s.excused || e == nil && s.connected // it travels: its server notices the silence by itself
		p.sendAway(s, a.kind)
		p.vanish(s)
	case forges:
		p.forge(s, e, a.n)
	case attacks:
		p.attack(s, a.n)
	case rebinds:
		if s.edge != nil {
			p.rebind(s)
		}
		return
	}
	if a.kind == travels && e != nil {
		p.travel(s, e, a.n)
		return
	}
	if e == nil {
		return
	}
	switch a.kind {
	case bans:
		p.ban(s)
	case kicks:
		p.sendAway(s, a.kind)
		_ = p.proxy.relayOf(e).kick(p.Now(), e, "a story")
	case moves:
		if s.scene.relayed {
			if err := p.proxy.relayOf(e).move(p.Now(), e, s.scene.games[0].addr); !errors.Is(err, ErrNotMovable) {
				p.judge.Errorf("the relayed session of player %d moves: %v", s.number, err)
			}
			return
		}
		to := s.scene.games[0].addr
		if e.Value.server != nil && e.Value.server.Addr == to {
			to = s.scene.games[1].addr
		}
		// The session ends if its client has an ID of the server, and the other server gives another one.
		s.excused = s.excused || !e.Value.isPending() && e.Value.origin != ownID && e.Value.id != 0
		s.moved = p.Now().Add(max(p.story.hold, moveTime))
		if e.Value.hold == nil {
			p.chatter(s, p.serverEnd(e), chatterTimes)
		}
		_ = p.proxy.relayOf(e).move(p.Now(), e, to) // some protocols' sessions stay
	}
}

// sendAway notes that a session ends because the story says so.
func (p *performance) sendAway(s *seat, why actKind) {
	if !s.away {
		s.away, s.cause, s.early = true, why, !p.isSettled(s)
	}
	if p.playing[s.who] == s {
		p.playing[s.who] = nil
	}
}

// ban bans the address of a player, and all players there. They come back with other addresses.
func (p *performance) ban(s *seat) {
	host := p.hosts[s.who]
	for _, other := range p.seats {
		if other.addr.Addr() == s.addr.Addr() {
			p.sendAway(other, bans)
			other.parting = other.parting && !other.scene.relayed // its last words still need the proxy
		}
	}
	for who := range p.hosts {
		if p.hosts[who] == host {
			p.hosts[who] = p.lastHost
		}
	}
	p.lastHost++
	p.proxy.bans.Add(ratelimit.Ban{Prefix: netip.PrefixFrom(s.addr.Addr(), 32), Reason: "a story"})
	for _, n := range p.proxy.nodes {
		n.relay.EnforceBans(p.Now())
	}
}

// speak sends messages from one end of a session. Two of three are reliable where the protocol has that.
func (p *performance) speak(s *seat, end *peer, v *voice, up bool, n int) {
	for range n {
		m := mark{up: up, owner: s.number, number: v.sent, reliable: v.sent%3 < 2}
		if end.conn.Send(p.Now(), s.dialogue.write(m)) != nil {
			return // its queue is full
		}
		v.sent++
		if m.reliable && !s.excused {
			v.promise = append(v.promise, m.number)
		}
	}
}

const (
	lastWords = 8 // bounds the messages said right before a goodbye

	chatterTimes = 16                    // messages to a player who moves
	earlyChatter = 8                     // those said before the proxy may leave the server
	chatterPause = 50 * time.Millisecond // between two of them
)

// answer sends messages of the server to a player.
func (p *performance) answer(s *seat, e *Entry, n int) {
	if conn := p.serverEnd(e); conn != nil && p.owners[conn] == s && !conn.gone() &&
		(s.scene.relayed || e.Value.hold == nil) {
		p.speak(s, conn, &s.down, false, n)
	}
}

// chatter lets a server speak to a player who moves. The server goes on until it believes the goodbye, which is after
// the proxy has left. So only what it says early must arrive.
func (p *performance) chatter(s *seat, conn *peer, times int) {
	if conn == nil || p.owners[conn] != s || conn.gone() || s.over || times == 0 {
		return
	}
	promised := len(s.down.promise)
	p.speak(s, conn, &s.down, false, 1)
	if times <= chatterTimes-earlyChatter {
		s.down.promise = s.down.promise[:promised]
	}
	p.After(chatterPause, func() { p.chatter(s, conn, times-1) })
}

// crash ends a server without a word. It comes back without its sessions.
func (p *performance) crash(g *game, d time.Duration) {
	p.crashed = later(p.crashed, p.Now().Add(d+troubleTime))
	p.excuse()
	g.down, g.peers, g.byAddr, g.replies, g.unread = true, nil, make(map[netip.AddrPort]*peer), nil, nil
	for _, node := range p.tcpGames {
		if node.game == g {
			for from := range node.streams {
				node.net.CloseStream(g.addr, from)
			}
			node.streams = make(map[netip.AddrPort]*frames)
		}
	}
	p.After(d, func() { g.down = false })
}

func (p *performance) reload(variant int) {
	next := *p.proxy.settings
	switch variant % 3 {
	case 1:
		next.Limits.Sessions += variant
	case 2:
		next.HandshakeTimeout += time.Second
	}
	p.proxy.settings = &next
	for _, n := range p.proxy.nodes {
		n.relay.Reload(p.Now(), &next, nil)
	}
}

// drain keeps new sessions from a server for a while.
func (p *performance) drain(sc *scene, i int, d time.Duration) {
	end := &sc.drained[i]
	*end = later(*end, p.Now().Add(d))
	set := func(drained bool) {
		_ = p.proxy.shared.Pools.Get(sc.route.Upstream.Name).Drain(p.Now(), sc.pooled(i), drained)
	}
	set(true)
	p.After(d, func() { set(p.Now().Before(*end)) })
}

// precopy copies all sessions for their next Relays in up to three passes. Sessions change after each pass.
func (p *performance) precopy(n int) {
	for _, node := range p.proxy.nodes {
		node.relay.precopy.start(nil)
		node.copies = nil
	}
	for range n % 4 {
		for _, node := range p.proxy.nodes {
			node.copies = append(node.copies, copyPass(node.relay, p.Now()))
		}
		p.Run(time.Duration(n%50) * time.Millisecond)
	}
	for _, node := range p.proxy.nodes {
		(&world{Net: p.Net, t: p.judge, copies: node.copies}).checkCopies(node.relay)
	}
}

// replace hands all sessions to other Relays. An operator sees the same of both.
func (p *performance) replace() {
	old := p.proxy.replace(p.judge, p.proxy.save(p.Now()))
	if len(old) == 1 { // Relays that share counts cannot be compared one by one
		(&world{Net: p.Net, t: p.judge}).sameBooks(old[0], p.proxy.nodes[0].relay)
	}
}

// travel takes a session out of its Relay and gives it to another one, or to the same, as `sessions export` and
// `sessions import` do. The session waits there for its client's next datagram.
func (p *performance) travel(s *seat, e *Entry, n int) {
	end := p.serverEnd(e)
	b, err := p.proxy.relayOf(e).takeOut(p.Now(), e)
	if errors.Is(err, ErrNotMovable) || errors.Is(err, ErrNoSession) {
		return // it plays on
	}
	if s.isImpatient(0) || s.dialogue.clients.Spec().Closed {
		s.excused = true // the client may be silent for longer than the server's patience
	}
	s.travels, s.end = p.Now().Add(clientPing), end
	if err == nil && n%2 == 1 {
		p.replaced = true
		p.replace()
	}
	if err == nil {
		err = ask(p.proxy.node(s.addr, s.at).relay, p.Now(), &PutInSession{Record: b})
	}
	if err == nil {
		p.arrived++
	}
	if errors.Is(err, session.ErrFull) { // strangers have all places of a relayed scene
		s.excused = true
		return
	}
	if err != nil {
		p.judge.Errorf("player %d cannot travel: %v", s.number, err)
	}
}

// fail ends the proxy without a word. Others go on with its state of a while ago. Streams cannot survive that.
func (p *performance) fail(d time.Duration) {
	for _, sc := range p.scenes {
		if sc.servers.transport.Stream || sc.clients[0].transport.Stream {
			return
		}
	}
	m := p.proxy.save(p.Now())
	known := make(map[*iceServer]map[string]netip.AddrPort) // the saved state has no newer address of a session
	for _, sc := range p.scenes {
		for _, g := range sc.games {
			if ice, ok := g.protocol.(*iceServer); ok {
				known[ice] = maps.Clone(ice.playing)
			}
		}
	}
	p.Run(d)
	p.crashed = later(p.crashed, p.Now().Add(troubleTime))
	p.excuse()
	for ice, playing := range known {
		ice.playing = playing
	}
	for _, n := range p.proxy.nodes {
		n.out = nil
	}
	for _, records := range m.records {
		for _, one := range records {
			for _, s := range one.sockets {
				s.(*simSocket).closed = false
			}
		}
	}
	p.proxy.replace(p.judge, m)
}
