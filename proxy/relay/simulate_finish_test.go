package relay

import "tidegate/codec"

// finish lets everything settle, checks what has arrived, and ends all sessions.
func (p *performance) finish() {
	p.SetWeather(weatherKinds[0])
	p.Run(settleTime)
	p.checkAcknowledged()
	for _, s := range p.seats {
		if s.parting && !s.excused && !s.suspect {
			p.count(s, "the server", &s.up, exactlyOnce)
		}
		if s.away || s.excused || p.isForgotten(s) {
			continue
		}
		if !s.connected {
			p.judge.Errorf("player %d is not in after %v", s.number, p.Now().Sub(s.joined))
		}
		if s.leaky {
			continue
		}
		p.count(s, "the server", &s.up, promiseOf(s.dialogue.clients, s.dialogue.servers))
		p.count(s, "the player", &s.down, promiseOf(s.dialogue.servers, s.dialogue.clients))
	}
	p.books()
	for _, s := range p.seats {
		if !s.away {
			p.sendAway(s, drains)
		}
		if p.story.hasty && s.number%2 == 0 && !s.lost {
			p.vanish(s)
		}
	}
	for _, n := range p.proxy.nodes {
		n.relay.Drain(p.Now())
	}
	p.Run(goodbyeTime)
	for _, s := range p.seats {
		if !s.over && !s.lost {
			p.judge.Errorf("player %d was not told of the end", s.number)
		}
	}
	for _, sc := range p.scenes {
		for _, g := range sc.games {
			for _, conn := range g.peers {
				if !conn.gone() && conn.find(codec.Connected) != nil && !sc.servers.Spec().Closed {
					p.judge.Errorf("%s server %v still has a session: %+v", sc.servers.Spec().Name, g.addr, conn.conn.Stats())
				}
			}
		}
	}
	p.checkEmpty()
}

// checkAcknowledged asserts that no message of a session still waits, as it does if a side forgets to acknowledge.
func (p *performance) checkAcknowledged() {
	waiting := func() (s *seat, bytes int) {
		for _, s := range p.seats {
			e := p.entryOf(s)
			if s.over || s.away || s.excused || s.leaky || e == nil || e.Value.isPending() {
				continue
			}
			bytes := s.conn.Stats().Queued
			if !s.scene.relayed {
				if e.Value.upstream.Conn == nil {
					continue
				}
				bytes += e.Value.client.Conn.Stats().Queued + e.Value.upstream.Conn.Stats().Queued
			}
			if server := p.serverEnd(e); server != nil {
				bytes += server.conn.Stats().Queued
			}
			if bytes > 0 {
				return s, bytes
			}
		}
		return nil, 0
	}
	p.RunUntil(echoTime, func() bool { s, _ := waiting(); return s == nil })
	if s, bytes := waiting(); s != nil {
		p.judge.Errorf("%d bytes in the session of player %d still wait for an acknowledgement", bytes, s.number)
	}
}

// count compares the reliable messages of one direction with the promise of the pair.
func (p *performance) count(s *seat, to string, v *voice, promised promise) {
	for _, n := range v.promise {
		times := v.arrived[n]
		switch isCut := s.dialogue.fill(mark{reliable: true, number: n}) > leastCut; {
		case times == 0 && isCut && v.altered > 0:
			v.altered--
		case promised == exactlyOnce && times != 1, promised == atLeastOnce && times == 0:
			p.judge.Errorf("message %d of %d of player %d reached %s %d times", n, v.sent, s.number, to, times)
		}
	}
	for n := range v.arrived {
		if n >= v.sent && !s.suspect {
			p.judge.Errorf("%s of player %d heard message %d of %d", to, s.number, n, v.sent)
		}
	}
}

// books compares the Relays' counters with their tables. A relayed session that was taken in may go to another loop,
// when its client comes to that one: then the sums of all loops count.
func (p *performance) books() {
	var relayed, counted [2]uint64 // up and down
	compare := func() {
		if !p.replaced && (relayed[0] > counted[0] || relayed[1] > counted[1]) {
			p.judge.Errorf("relayed sessions count %d datagrams, the Relay %d", relayed, counted)
		}
		relayed, counted = [2]uint64{}, [2]uint64{}
	}
	for _, n := range p.proxy.nodes {
		var up, down uint64
		for e := range n.relay.table.All {
			if e.Value.isRelayed() {
				relayed[0] += e.Value.fromClient.Messages
				relayed[1] += e.Value.fromServer.Messages
				continue
			}
			up, down = up+e.Value.fromClient.Messages, down+e.Value.fromServer.Messages
		}
		c := &n.relay.counters
		if !p.replaced && (up > c.FromClients.Messages || down > c.FromUpstreams.Messages) {
			p.judge.Errorf("sessions count %d and %d messages, the Relay %d and %d", up, down, c.FromClients.Messages,
				c.FromUpstreams.Messages)
		}
		counted[0] += c.RelayedUp.Messages
		counted[1] += c.RelayedDown.Messages
		if p.arrived == 0 {
			compare()
		}
	}
	compare()
}
