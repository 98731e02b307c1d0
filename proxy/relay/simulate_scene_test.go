package relay

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/joining"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/upstream"
	"tidegate/ratelimit"
	"tidegate/session"
)

// scene is a listener with its upstream of two servers.
type scene struct {
	listener  netip.AddrPort
	clients   []member
	servers   member
	route     *Route
	games     [2]*game
	dialogues []*dialogue // by protocol of the clients
	relayed   bool        // datagrams pass unchanged
	edge      bool        // and its clients join by NetherNet
	drained   [2]time.Time
	refusing  [2]time.Time
}

// cast has the protocols of a scene: indices of members(oneDialect).
type cast struct {
	clients []int
	servers int
	relayed bool
	edge    bool
	mapped  bool // all messages cross by a map
}

// newCast chooses protocols. One scene in three has clients of several protocols.
func newCast(rng *rand.Rand, family []member) cast {
	c := cast{clients: []int{rng.IntN(len(family))}, servers: rng.IntN(len(family))}
	together := companions(family, c.servers)
	if rng.IntN(3) > 0 || len(together) == 0 {
		return c
	}
	c.clients = together[:0:0]
	for _, i := range together {
		if rng.IntN(3) > 0 {
			c.clients = append(c.clients, i)
		}
	}
	if len(c.clients) == 0 {
		c.clients = together[:1]
	}
	return c
}

// canMap reports whether the messages of a cast can cross by a map: each has its own beginning.
func (c *cast) canMap(family []member) bool {
	odd := func(i int) bool { return family[i].Spec().Closed || family[i].Spec().Joins }
	return !c.relayed && !odd(c.servers) && !slices.ContainsFunc(c.clients, odd)
}

// newRelayedCast chooses the protocol of a relayed scene.
func newRelayedCast(rng *rand.Rand, family []member) cast {
	i := rng.IntN(len(family))
	return cast{clients: []int{i}, servers: i, relayed: true}
}

// newEdgeCast chooses the game within NetherNet. It bears the silence until a client's next check.
func newEdgeCast(rng *rand.Rand, family []member) cast {
	var patient []int
	for i, m := range family {
		if name := m.String(); name == "raknet" || name == "enet" {
			patient = append(patient, i)
		}
	}
	i := patient[rng.IntN(len(patient))]
	return cast{clients: []int{i}, servers: i, relayed: true, edge: true}
}

// companions returns the protocols whose clients can share a listener, those with the surest evidence first.
func companions(family []member, servers int) (all []int) {
	far := family[servers].Spec()
	for i, m := range family {
		// bedrock is raknet to a new client, and R-Type has forms of messages of its own
		if !m.transport.Stream && m.Spec().Name != "bedrock" && !m.Spec().Closed && !far.Closed {
			all = append(all, i)
		}
	}
	byShape := func(i int) bool { return protocols.Find(family[i].Spec().Name).Evidence >= registry.ByShape }
	slices.SortStableFunc(all, func(a, b int) int {
		switch {
		case byShape(a) == byShape(b):
			return 0
		case byShape(b):
			return -1
		}
		return 1
	})
	return all
}

// newScene makes the scene of a cast, with its servers.
func (p *performance) newScene(index int, c cast, family []member) *scene {
	sc := &scene{
		listener: netip.AddrPortFrom(listenerAddr.Addr(), listenerAddr.Port()+uint16(index)), servers: family[c.servers],
		relayed: c.relayed, edge: c.edge,
	}
	for _, i := range c.clients {
		sc.clients = append(sc.clients, family[i])
	}
	sc.route = matrixRoute(sc.clients[0].Protocol, sc.servers.Protocol)
	for _, m := range sc.clients[1:] {
		r := matrixRoute(m.Protocol, sc.servers.Protocol)
		sc.route.Bridge.AllowLossy = sc.route.Bridge.AllowLossy || r.Bridge.AllowLossy
		if r.Bridge.Envelope == policy.EnvelopeFramed {
			sc.route.Bridge.Envelope = r.Bridge.Envelope
		}
	}
	if c.mapped {
		sc.route.Bridge.Map, sc.route.Bridge.Unmapped = twoForms(sc.servers.Spec()), policy.UnmappedDrops
	}
	sc.route.Name = fmt.Sprintf("arena-%d", index)
	if (p.story.seed+uint64(index))%3 == 0 {
		sc.route.Modules = []RouteModule{moduled("again", sendsAgain(p.judge), false)}
	}
	if sc.relayed {
		sc.route.Mode = policy.ModeRelay
	} else {
		sc.route.Failover = Failover{Hold: p.story.hold}
	}
	up := sc.route.Upstream
	up.Name, up.Transport, up.Servers = sc.route.Name, sc.servers.transport, nil
	for _, m := range sc.clients {
		sc.dialogues = append(sc.dialogues, newDialogue(m.Protocol, sc.servers.Protocol, sc.route))
	}
	for i := range sc.games {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(index), byte(1 + i)}), serverAddr.Port())
		g := &game{protocol: sc.servers.Protocol, addr: addr, byAddr: make(map[netip.AddrPort]*peer)}
		if sc.edge {
			g.protocol = &iceServer{
				sc.servers.Protocol, make(map[string]*edgeNames), make(map[string]netip.AddrPort), p.judge,
			}
		}
		g.react = func(now time.Time, conn *peer, ev *codec.Event) { p.serverEvent(now, sc, i, conn, ev) }
		sc.games[i] = g
		up.Servers = append(up.Servers, upstream.Target{Addr: sc.pooled(i)})
		if !up.Transport.Stream {
			p.Add(g, addr)
			continue
		}
		node := &tcpGame{game: g, prefix: up.Transport.Prefix, net: p.Net, streams: make(map[netip.AddrPort]*frames)}
		p.tcpGames = append(p.tcpGames, node)
		p.Add(node, addr)
	}
	return sc
}

// stage sets up the world of a story.
func (s *story) stage(t testing.TB) *performance {
	family := members(oneDialect)
	j := &judge{TB: t}
	p := &performance{
		Net: simnet.New(j, s.seed, weatherKinds[0]), story: s, judge: j, rng: rand.New(rand.NewPCG(s.seed, 19)),
		owners: make(map[*peer]*seat), playing: make([]*seat, s.players), heard: make(map[netip.AddrPort][][]byte),
		opened: make(map[netip.AddrPort][][]byte), guessed: make(map[netip.AddrPort]bool),
		conditions: conditions{sky: weatherKinds[0]}, lastHost: s.players,
	}
	for who := range s.players {
		p.hosts = append(p.hosts, who/2) // two players have one address
	}
	settings := &Settings{
		Limits: session.Limits{
			Sessions: 3*s.players + 40, HalfOpen: s.players + 30, HalfOpenAddress: 8, HalfOpenNetwork: s.players + 30,
			Address: 16,
		},
		HandshakeTimeout: 15 * time.Second,
		IdleTimeout:      30 * time.Second,
		DrainTimeout:     drainTime,
		Bounds: []ratelimit.Limit{
			{Of: ratelimit.Packets, Per: ratelimit.PerAddress, Rate: generous, Verdict: ratelimit.Drop},
			{Of: ratelimit.Bytes, Per: ratelimit.PerNetwork, Rate: generous, Verdict: ratelimit.Observe},
		},
	}
	if s.hasty {
		settings.DrainTimeout = hastyDrainTime
	}
	for i, c := range s.scenes {
		sc := p.newScene(i, c, family)
		p.scenes = append(p.scenes, sc)
		l := Listener{
			Name: fmt.Sprintf("play-%d", i), Addr: sc.listener, Transport: sc.clients[0].transport, Route: sc.route,
		}
		for _, m := range sc.clients {
			l.Protocols = append(l.Protocols, m.Protocol)
		}
		if sc.edge {
			l.Protocols, l.Joins = []codec.Protocol{NetherNet}, joining.NewTickets(simulatedJoins, nil)
		}
		settings.Listeners = append(settings.Listeners, l)
	}
	p.proxy = newProcess(p.Net, settings, s.seed, s.loops, min(300*(1+s.players), socketsPerLoop))
	for _, n := range p.proxy.nodes {
		n.receive = p.watch(n)
	}
	p.SetTap(p.overhear)
	p.SetPaths(p.pathWeather)
	return p
}

const (
	drainTime      = 3 * time.Second
	hastyDrainTime = time.Second // shorter than the codecs wait for an answer to a goodbye
)

// generous is a rate beyond what players and hostile players send.
var generous = ratelimit.Rate{PerSecond: 1 << 20, Burst: 1 << 20}

// enter lets a player join, unless it plays.
func (p *performance) enter(who int) {
	if p.playing[who] != nil && !p.playing[who].over {
		return
	}
	sc := p.scenes[who%len(p.scenes)]
	k := who / len(p.scenes) % len(sc.clients)
	s := &seat{number: len(p.seats), who: who, joined: p.Now(), scene: sc, dialogue: sc.dialogues[k]}
	s.up.arrived, s.down.arrived = make(map[int]int), make(map[int]int)
	host := netip.AddrFrom4([4]byte{10, 2, byte(p.hosts[who] >> 8), byte(p.hosts[who])})
	s.player = &player{addr: netip.AddrPortFrom(host, uint16(5000+s.number)), at: sc.listener}
	s.react = func(_ time.Time, _ *peer, ev *codec.Event) { p.playerEvent(s, ev) }
	identity := uint64(1000 + who)
	if sc.edge {
		if p.enterEdge(s) {
			p.seats, p.playing[who] = append(p.seats, s), s
		}
		return
	}
	s.conn = s.dialogue.clients.Dial(p.Now(), sc.listener, codec.Hello{Identity: identity})
	_, taken := p.proxy.shared.presence.sessions[presenceKey{p.listenerName(sc), identity}]
	s.rival = taken
	p.seats, p.playing[who] = append(p.seats, s), s
	if !sc.clients[k].transport.Stream {
		p.Add(s.player, s.addr)
		return
	}
	p.DialStream(s.addr, sc.listener)
	p.Add(&tcpPlayer{player: s.player, frames: frames{prefix: sc.clients[k].transport.Prefix}, net: p.Net}, s.addr)
}

func (p *performance) listenerName(sc *scene) string {
	return p.proxy.settings.Listeners[p.indexOf(sc)].Name
}

func (p *performance) indexOf(sc *scene) int { return slices.Index(p.scenes, sc) }
