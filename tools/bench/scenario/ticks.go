package scenario

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

// Bounds of Ticks. A state has room for the stamps of some inputs.
const (
	maxTicks  = 1000
	minState  = 1 + stateRoom*minStamp
	stateRoom = 8
)

// Ticks measures the load of a game. Each player sends an input of Options.Size bytes at each tick.
// Players are spread over the time of a tick. The server sends a state of Options.State bytes to all players at once.
// A state has the stamps of the inputs since the state before, so the delay of an input includes the wait for a tick.
func Ticks(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Ticks < 1 || o.Ticks > maxTicks || o.State < minState || o.State > maxSize {
		return nil, fmt.Errorf("%d ticks a second, states of %d bytes: %w: want 1 to %d, and %d to %d", o.Ticks, o.State,
			ErrOptions, maxTicks, minState, maxSize)
	}
	p, err := protocolNamed(o.From)
	if err != nil {
		return nil, err
	}
	if p.Spec().Joins {
		return nil, fmt.Errorf("%q: %w: its messages may arrive joined", o.From, ErrOptions)
	}
	o.To = o.From
	o.Rate = o.Ticks * o.Sessions // inputs of all players
	sc, err := terminating(o, "ticks", "message")
	if err != nil {
		return nil, err
	}
	sc.addFloor(o, startC)
	sc.Size, sc.Sessions, sc.Ticks, sc.State, sc.each = o.Size, o.Sessions, o.Ticks, o.State, 2
	head := formOf(p, p).head
	sc.server = func() (server, error) { return startTickGame(p, o.Ticks, o.State, head) }
	sc.load = func(to netip.AddrPort, clients int) (load, error) { return newTickLoad(p, clients, o.Size, to) }
	return sc.run(o)
}

// newTickLoad makes players of a tickGame.
func newTickLoad(p codec.Protocol, players, size int, to netip.AddrPort) (*gameLoad, error) {
	l, err := newGameLoad(p, p, players, size, to)
	if err != nil {
		return nil, err
	}
	l.take = l.takeState
	return l, nil
}

// takeState reads the stamps of a state: their number in one byte, then the stamps.
func (l *gameLoad) takeState(m codec.Message) {
	b := m.Payload
	for n := b[0]; n > 0 && len(b) > minStamp; n-- {
		l.read(b[1 : 1+minStamp])
		b = b[minStamp:]
	}
}

// tickGame is a game server that sends its state to all players at each tick.
type tickGame struct {
	*endpoint.Endpoint[player]
	listener *endpoint.Listener
	players  []*endpoint.Conn[player]
	every    time.Duration
	head     int // bytes before the stamp in an input, and before the number of stamps in a state
	state    []byte
	stopped  atomic.Bool
	done     chan struct{}
}

// player has what a player's next state needs.
type player struct {
	latest codec.Message // that the player has sent; its payload is the head only
	head   []byte
	stamps []byte // of the inputs since the last state
}

func startTickGame(p codec.Protocol, ticks, state, head int) (*tickGame, error) {
	g := &tickGame{
		every: time.Second / time.Duration(ticks), head: head, state: make([]byte, head+state), done: make(chan struct{}),
	}
	var err error
	if g.Endpoint, g.listener, err = listenGame(p, g.event); err != nil {
		return nil, err
	}
	go g.run()
	return g, nil
}

func (g *tickGame) addr() netip.AddrPort { return g.listener.Addr() }

func (g *tickGame) run() {
	defer close(g.done)
	for next := time.Now(); !g.stopped.Load(); {
		if g.Turn(next) != nil {
			return
		}
		if now := g.Now(); !now.Before(next) {
			g.tick()
			next = next.Add((now.Sub(next)/g.every + 1) * g.every) // a late server leaves ticks out
		}
	}
}

// tick sends the state to each player who has sent something.
func (g *tickGame) tick() {
	for _, c := range g.players {
		p := &c.Value
		if len(p.head) < g.head {
			continue
		}
		copy(g.state, p.head)
		body := g.state[g.head:]
		clear(body)
		body[0] = byte(copy(body[1:], p.stamps) / minStamp)
		p.stamps = p.stamps[:0]
		m := p.latest
		m.Payload = g.state
		_ = c.Send(g.Now(), m) // inputs without a state count as lost
		g.Touch(c)
	}
}

func (g *tickGame) event(c *endpoint.Conn[player], e *codec.Event) {
	switch e.Kind {
	case codec.Connected:
		g.players = append(g.players, c)
	case codec.Disconnected:
		for i, other := range g.players {
			if other == c {
				last := len(g.players) - 1
				g.players[i] = g.players[last]
				g.players = g.players[:last]
				return
			}
		}
	case codec.Received:
		p, b := &c.Value, e.Payload
		if len(b) < g.head+minStamp {
			return
		}
		p.head = append(p.head[:0], b[:g.head]...)
		p.latest = e.Message
		p.latest.Payload, p.latest.Receipt = nil, 0
		if len(p.stamps) < stateRoom*minStamp {
			p.stamps = append(p.stamps, b[g.head:g.head+minStamp]...)
		}
	}
}

func (g *tickGame) stop() {
	g.stopped.Store(true)
	g.Wake()
	<-g.done
	_ = g.Close() // nothing can be lost any more
}
