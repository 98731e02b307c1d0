package relay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"tidegate/codec/codectest/simnet"
)

// story is one simulated game as data: protocols, and what happens when. A story of a seed is always the same. A story
// that fails can be shortened, act by act.
type story struct {
	seed    uint64
	scenes  []cast
	loops   int // Relays of the proxy
	hold    time.Duration
	players int
	hasty   bool // its drain is short, and every other player is silent from then on
	acts    []act

	unlucky int // result of the last play: sessions that ended by chance
}

// act is one event of a story.
type act struct {
	after time.Duration // since the act before it
	kind  actKind
	who   int // a player
	where int // a server
	n     int // a number of messages or datagrams, a kind of weather, or milliseconds
}

type actKind int

// Kinds of acts. The comment says what n is.
const (
	joins       actKind = iota // a player dials, unless it plays
	says                       // messages to the server
	hears                      // messages to the player
	leaves                     // the player says goodbye
	vanishes                   // the player is silent from now on
	weathers                   // a weather
	blackout                   // milliseconds without any datagram
	stopsProxy                 // milliseconds in which the process does not run
	crashes                    // milliseconds until the server is back, without its state
	freezes                    // milliseconds in which the server does not read
	reloads                    // a variant of the settings
	bans                       // -
	kicks                      // -
	moves                      // - to the other server
	drains                     // milliseconds without new sessions for a server
	replaces                   // - other Relays take over all sessions
	fails                      // milliseconds: the proxy ends, and others go on with its state of that time ago
	refuses                    // milliseconds in which a server refuses new clients
	garbles                    // altered datagrams of a server to each of its sessions
	slows                      // milliseconds in which a server is far away
	cutsServer                 // milliseconds without datagrams between the proxy and a server
	cutsPlayers                // milliseconds without datagrams between a listener and its players
	shrinks                    // milliseconds of a small MTU
	corrupts                   // milliseconds of altered bits
	floods                     // strangers who begin to join
	forges                     // forged datagrams in the names of a player and its server
	attacks                    // altered datagrams of a hostile player, from its own address
	travels                    // milliseconds in which a session is in no Relay; odd: others take over meanwhile
	rebinds                    // - a NAT gives a player at an edge another address
	actKinds
)

var actNames = [actKinds]string{
	"joins", "says", "hears", "leaves", "vanishes", "weathers", "blackout", "stops the proxy", "crashes", "freezes",
	"reloads", "bans", "kicks", "moves", "drains", "replaces the Relays", "fails", "refuses", "garbles", "slows",
	"cuts a server", "cuts players", "shrinks the MTU", "corrupts", "floods", "forges", "attacks",
	"travels", "comes from another address",
}

// actShares are the shares of the kinds in a story.
var actShares = [actKinds]int{
	joins: 16, says: 40, hears: 40, leaves: 4, vanishes: 2, weathers: 10, blackout: 3, stopsProxy: 4, crashes: 1,
	freezes: 2, reloads: 4, bans: 2, kicks: 2, moves: 4, drains: 2, replaces: 6, fails: 1, refuses: 1, garbles: 1,
	slows: 1, cutsServer: 1, cutsPlayers: 1, shrinks: 1, corrupts: 1, floods: 3, forges: 8, attacks: 6,
	travels: 3,
}

// weatherKinds are the kinds of weather, the calm one first.
var weatherKinds = []simnet.Weather{
	{Latency: 5 * time.Millisecond},
	{Latency: 25 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.02},
	{Latency: 5 * time.Millisecond, Jitter: 15 * time.Millisecond, Loss: 0.1, Duplication: 0.05},
	{Latency: 30 * time.Millisecond, Jitter: 60 * time.Millisecond, Loss: 0.3, Duplication: 0.1},
	{Latency: 20 * time.Millisecond, Bandwidth: 200_000, Backlog: 200 * time.Millisecond},
}

const (
	storyActs    = 60
	storyPlayers = 6
	storyStep    = 400 * time.Millisecond // longest time between two acts

	hastyEvery   = 4 // of so many stories one is hasty
	relayedEvery = 3 // of so many stories one has a relayed scene beside a terminated one
	edgeEvery    = 4 // and of so many, one has an edge
	mappedEvery  = 3 // of so many scenes that can have one, one has a map

	// One story in largeShare has up to largeCrowd players, who join within seconds.
	largeShare = 400
	largeCrowd = 200
	largeStep  = 20 * time.Millisecond
)

// newStory makes the story of a seed.
func newStory(seed uint64, family []member) *story {
	rng := rand.New(rand.NewPCG(seed, 18))
	s := &story{
		seed: seed, players: 1 + rng.IntN(storyPlayers), loops: 1 + rng.IntN(4)/3,
		hold: time.Duration(rng.IntN(2)) * 10 * time.Second,
	}
	s.hasty = seed%hastyEvery == 0
	for range 1 + rng.IntN(5)/3 {
		s.scenes = append(s.scenes, newCast(rng, family))
	}
	if own := rand.New(rand.NewPCG(seed, 20)); own.IntN(relayedEvery) == 0 { // the rest of the story stays as it is
		s.scenes = append(s.scenes[:1], newRelayedCast(own, family))
	}
	edge := rand.New(rand.NewPCG(seed, 21))
	hasEdge := edge.IntN(edgeEvery) == 0
	if hasEdge {
		s.scenes = append(s.scenes[:1], newEdgeCast(edge, family))
	}
	for i, mapped := 0, rand.New(rand.NewPCG(seed, 22)); i < len(s.scenes); i++ {
		s.scenes[i].mapped = mapped.IntN(mappedEvery) == 0 && s.scenes[i].canMap(family)
	}
	count := max(10+rng.IntN(storyActs), s.players)
	if rng.IntN(largeShare) == 0 {
		s.players = largeCrowd/2 + rng.IntN(largeCrowd/2)
		count += s.players
	}
	var lots []actKind
	for kind, share := range actShares {
		for range share {
			lots = append(lots, actKind(kind))
		}
	}
	for i := range count {
		a := act{
			after: time.Duration(rng.Int64N(int64(storyStep))), kind: lots[rng.IntN(len(lots))], who: rng.IntN(s.players),
			where: rng.IntN(1 << 10), n: 1 + rng.IntN(30),
		}
		if i < s.players {
			a.kind, a.who = joins, i
		}
		if hasEdge && edge.IntN(10) == 0 && i >= s.players {
			a.kind = rebinds
		}
		if i < s.players && s.players > storyPlayers {
			a.after %= largeStep
		}
		switch a.kind {
		case blackout, stopsProxy, freezes, slows, cutsServer, cutsPlayers, shrinks, corrupts, fails:
			a.n = 100 + rng.IntN(1400)
		case crashes, drains, refuses:
			a.n = 500 + rng.IntN(4000)
		case forges, attacks, floods:
			a.n = 1 + rng.IntN(200)
		}
		s.acts = append(s.acts, a)
	}
	return s
}

func (s *story) String() string {
	family := members(oneDialect)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d players, %d Relays, hold %v", s.seed, s.players, s.loops, s.hold)
	for _, c := range s.scenes {
		var names []string
		for _, i := range c.clients {
			names = append(names, family[i].String())
		}
		fmt.Fprintf(&b, ", %s to %v", strings.Join(names, " and "), family[c.servers])
		switch {
		case c.edge:
			b.WriteString(" (NetherNet)")
		case c.relayed:
			b.WriteString(" (relayed)")
		case c.mapped:
			b.WriteString(" (mapped)")
		}
	}
	b.WriteByte('\n')
	var at time.Duration
	for _, a := range s.acts {
		at += a.after
		fmt.Fprintf(&b, "  %8s  %-19s who %d, where %d, n %d\n", at.Round(time.Millisecond), actNames[a.kind], a.who, a.where,
			a.n)
	}
	return b.String()
}

// shorten returns the shortest story it finds that still fails, and how it fails. It leaves out acts, half of them at
// first, and keeps the time.
func (s *story) shorten(fails func(*story) string) (*story, string) {
	best, fault := s, fails(s)
	for size := len(s.acts) / 2; size > 0; {
		shorter := false
		for from := 0; from < len(best.acts); from += size {
			next := *best
			next.acts = append([]act(nil), best.acts[:from]...)
			var lost time.Duration
			for i, a := range best.acts[from:] {
				if i < size {
					lost += a.after
					continue
				}
				a.after, lost = a.after+lost, 0
				next.acts = append(next.acts, a)
			}
			if f := fails(&next); f != "" {
				best, fault, shorter = &next, f, true
				break
			}
		}
		if !shorter {
			size /= 2
		}
	}
	return best, fault
}
