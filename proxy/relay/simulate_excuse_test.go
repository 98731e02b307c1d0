package relay

import (
	"slices"
	"strings"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/proxy/stats"
)

const (
	longSilence = 4 * time.Second  // with echoTime; ENet gives up after 5 s, and its repeats come ever later
	troubleTime = 10 * time.Second // after a server is back
	echoTime    = 2 * time.Second  // after a silence: its waiting input is answered, and lost datagrams are sent again
	lossTime    = 5 * time.Second  // until lost messages have been sent again
	clientPing  = 5 * time.Second  // from a silent client's ping to its next one
	forgedTime  = 5 * time.Second  // until forged datagrams have arrived, and a goodbye is believed
	floodTime   = 16 * time.Second // until half-open sessions are given up
	heavyLoss   = 0.2              // handshakes may fail: RUDP's client waits for 3 s only
)

// conditions are what a story does to all sessions. Each lasts for a while. So an act can meet the effect of an
// earlier one, and of a later one.
type conditions struct {
	sky          simnet.Weather // the story's last weather
	lossy        time.Time      // until then, lost messages may not have been sent again
	silent       time.Time      // until then, the network, the proxy or a server may stand still
	silentSince  time.Time      // when that began
	crashed      time.Time      // until then, a server or the proxy's memory may be gone
	corrupt      time.Time      // until then, altered datagrams may have an effect
	flooded      time.Time      // until then, strangers may have all places of joining clients
	disturbances []disturbance
}

// excuses are what may go wrong in a session.
type excuses struct {
	excused bool // its messages may be lost, and it may end
	shaky   bool // it may fail before it is established
	leaky   bool // lost messages may not be sent again
	settled bool // it has been established
	risky   bool // it may end by chance: all of a peer's signs of life may be lost
	rival   bool // another session has had its identity
	parting bool // its player has left in calm weather, and its protocols deliver waiting messages before a goodbye
	left    time.Time
	cause   actKind // of its end
	early   bool    // it was not established then, so its answers were bounded, and a goodbye may have been too much
	forged  time.Time
	moved   time.Time
	travels time.Time // until then, it may wait for its client's next datagram
	end     *peer     // its server's connection when it began to travel
	alone   bool      // that server may give it up meanwhile
	rebound time.Time // until then, its client's new address may be unknown
}

// changeSky changes the weather.
func (p *performance) changeSky(sky simnet.Weather) {
	p.excuse()
	p.sky = sky
	p.SetWeather(sky)
}

// silence notes that something stands still for a time from now on.
func (p *performance) silence(d time.Duration) {
	if !p.Now().Before(p.silent) {
		p.silentSince = p.Now()
	}
	p.silent = later(p.silent, p.Now().Add(d+echoTime))
	p.excuse()
}

// excuse says what may go wrong in each session, by the conditions that hold now. It runs after each act, and before
// an act that takes time. A condition begins with an act, so it does not matter which of two begins first.
func (p *performance) excuse() {
	now := p.Now()
	if p.sky.Loss > 0 || p.sky.Backlog > 0 {
		p.lossy = now.Add(lossTime)
	}
	holds := func(until time.Time) bool { return now.Before(until) }
	heavy, silent, lossy := p.sky.Loss > heavyLoss, holds(p.silent), holds(p.lossy)
	for _, s := range p.seats {
		if holds(p.corrupt) { // also what a player has said before it left
			s.suspect, s.excused = true, true
		}
		if s.over && !s.parting {
			continue
		}
		sc := s.scene
		unserved := holds(sc.drained[0]) && holds(sc.drained[1])
		refused := holds(sc.refusing[0]) || holds(sc.refusing[1])
		forged, moved, settled := holds(s.forged), holds(s.moved), p.isSettled(s)
		switch {
		case holds(p.crashed), silent && s.isImpatient(p.silent.Sub(p.silentSince)),
			forged && (silent || heavy), moved && (unserved || refused),
			forged && (moved || !settled) && lossy: // a step of the new handshake may be lost
			s.excused = true
		case holds(s.rebound) && (silent || lossy || !settled): // the next check may be lost
			s.excused = true
		case holds(s.travels) && (silent || lossy) && s.waitsLong(silent):
			s.alone = true
		case forged && moved && s.speaks("enet"): // a forger may end the new handshake
			s.excused = true
		case holds(p.flooded) && p.isSilent(s): // it is half-open until its first key
			s.excused = true
		case (silent || heavy || unserved || refused || forged || holds(p.flooded)) && !settled:
			s.shaky = true
		case lossy && s.speaks("rudp") && sc.servers.transport.Stream && !settled: // losses delay a stream by seconds
			s.shaky = true
		}
		// A forged goodbye may be believed. RUDP gives up after 33 packets, and 20 of them are under way in heavy loss.
		s.risky = s.risky || forged && lossy || heavy && s.speaks("rudp")
		s.leaky = s.leaky || (forged || moved) && (silent || lossy)
		troubled := silent || lossy || forged || moved
		s.parting = s.parting && (!troubled || now.After(s.left.Add(lossTime)))
	}
}

// isImpatient reports whether a protocol of a session may give up a peer that is silent for a time while messages wait
// for its acknowledgement. For most of them half a second is enough.
func (s *seat) isImpatient(silence time.Duration) bool {
	return s.speaks("rudp") || s.speaks("riptide") || s.speaks("enet") && silence > longSilence
}

// waitsLong reports whether the server of a session that travels may give it up by its own rule. Such a session is
// silent: only its client's next datagram shows which loop has it. That comes up to 5 s later, or 10 s if it is lost.
// RakNet's server gives up after 10 s of silence. An outage before the journey may have taken more than 5 s of these.
// ENet's server gives up 5 s after a message without an acknowledgement. The proxy has no such excuse.
func (s *seat) waitsLong(silent bool) bool {
	return s.speaks("enet") || silent && (s.speaks("raknet") || s.speaks("bedrock"))
}

// abandon excuses a session whose server has given it up while it travelled.
func (p *performance) abandon(conn *peer, why codec.Reason) {
	for _, s := range p.seats {
		if s.alone && s.end == conn && why == codec.TimedOut {
			s.excused = true
		}
	}
}

// speaks reports whether a side's protocol has a name that begins so.
func (s *seat) speaks(name string) bool {
	clients, servers := s.dialogue.clients.Spec().Name, s.dialogue.servers.Spec().Name
	return strings.HasPrefix(clients, name) || strings.HasPrefix(servers, name)
}

// metTooLarge reports whether a message did not fit the other protocol. Players send none. A forger's ends the session.
func (p *process) metTooLarge() bool {
	return slices.ContainsFunc(p.nodes, func(n *relayNode) bool { return n.relay.counters.Drops[stats.DropTooLarge] > 0 })
}

// isSilent reports whether an R-Type player has not pressed a key.
func (p *performance) isSilent(s *seat) bool {
	e := p.entryOf(s)
	return s.dialogue.clients.Spec().Closed && e != nil && !p.proxy.relayOf(e).table.IsEstablished(e)
}

// part notes that a player leaves.
func (p *performance) part(s *seat) {
	finishes := func(protocol codec.Protocol) bool {
		return protocol.Spec().Name == "raknet" || protocol.Spec().Name == "bedrock"
	}
	s.parting, s.left = finishes(s.dialogue.clients) && finishes(s.dialogue.servers), p.Now()
}

// isSettled reports whether a session has been established.
func (p *performance) isSettled(s *seat) bool {
	e := p.entryOf(s)
	s.settled = s.settled || s.connected && e != nil && e.Value.life.hasJoined()
	return s.settled
}

// isForgotten reports whether a relayed session that may fail before it is established has left the table, and its
// player does not know yet. No goodbye tells it: ENet's client gives up after up to 30 s.
func (p *performance) isForgotten(s *seat) bool {
	return s.scene.relayed && s.shaky && !p.isSettled(s) && p.entryOf(s) == nil
}
