package scenario

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/tools/bench/process"
)

// game is a game server of a protocol. It returns every message.
type game struct {
	*endpoint.Endpoint[struct{}]
	listener *endpoint.Listener
	greeting []byte // to each new client; nil: none
	stopped  atomic.Bool
	done     chan struct{}
}

func startGame(p codec.Protocol) (*game, error) {
	g := &game{done: make(chan struct{})}
	var err error
	if g.Endpoint, g.listener, err = listenGame(p, g.event); err != nil {
		return nil, err
	}
	if p.Spec().Closed {
		g.greeting = rtypeCreate
	}
	go g.run()
	return g, nil
}

// startStreamGame is startGame over TCP.
func startStreamGame(p codec.Protocol, o endpoint.StreamOptions) (*game, error) {
	g := &game{done: make(chan struct{})}
	var err error
	if g.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: g.event}); err != nil {
		return nil, err
	}
	if g.listener, err = g.ListenStream(p, netip.AddrPortFrom(process.Loopback, 0), o); err != nil {
		_ = g.Close() // the earlier error matters more
		return nil, err
	}
	go g.run()
	return g, nil
}

// clientEndpoint is clientSocket for a client of an Endpoint.
func clientEndpoint(key uint64) endpoint.SocketOptions {
	o := clientSocket(key)
	return endpoint.SocketOptions{
		Sources: o.Sources, SourceKey: o.SourceKey, ReceiveBuffer: o.ReceiveBuffer, SendBuffer: o.SendBuffer,
	}
}

// listenGame returns an endpoint with a listener of a protocol on a free port.
func listenGame[T any](p codec.Protocol, event func(*endpoint.Conn[T], *codec.Event)) (*endpoint.Endpoint[T],
	*endpoint.Listener, error) {
	e, err := endpoint.New(endpoint.Options[T]{Event: event})
	if err != nil {
		return nil, nil, err
	}
	l, err := e.Listen(p, netip.AddrPortFrom(process.Loopback, 0),
		endpoint.SocketOptions{ReceiveBuffer: 8 << 20, SendBuffer: 8 << 20})
	if err != nil {
		_ = e.Close() // the earlier error matters more
		return nil, nil, err
	}
	return e, l, nil
}

func (g *game) addr() netip.AddrPort { return g.listener.Addr() }

func (g *game) run() {
	defer close(g.done)
	for !g.stopped.Load() && g.Turn(time.Time{}) == nil {
	}
}

func (g *game) event(c *endpoint.Conn[struct{}], e *codec.Event) {
	switch {
	case e.Kind == codec.Received:
		m := e.Message
		m.Receipt = 0
		_ = c.Send(g.Now(), m) // the client counts a reply without room as lost
	case e.Kind == codec.Connected && g.greeting != nil:
		_ = c.Send(g.Now(), codec.Message{Payload: g.greeting})
	}
}

func (g *game) stop() {
	g.stopped.Store(true)
	g.Wake()
	<-g.done
	_ = g.Close() // nothing can be lost any more
}

// gameLoad is clients that send messages.
type gameLoad struct {
	*traffic
	endpoint  *endpoint.Endpoint[struct{}]
	protocol  codec.Protocol
	form      form
	take      func(codec.Message) // reads a stamp; made once, since each closure would allocate
	to        netip.AddrPort
	wanted    int // clients
	clients   []*endpoint.Conn[struct{}]
	next      int // client that sends next
	inBurst   int // messages that it has sent in this burst
	connected int
	lost      int          // clients that lost their connection
	why       codec.Reason // of the latest lost connection
	idle      bool         // clients send no messages
	body      []byte       // of the messages, after the form's head
}

// messagesInFlight is the number of messages in flight where there is no timetable.
const messagesInFlight = 256

// newGameLoad makes clients of a subject at an address, in front of a server of another protocol. They connect in open.
func newGameLoad(p, server codec.Protocol, clients, size int, to netip.AddrPort) (*gameLoad, error) {
	f := formOf(p, server)
	l := &gameLoad{
		traffic: newTraffic(messagesInFlight), protocol: p, form: f,
		body: make([]byte, max(size-f.head, minStamp)), to: to, wanted: clients,
	}
	var err error
	l.take = func(m codec.Message) { l.read(m.Payload) }
	l.endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: l.event})
	return l, err
}

func (l *gameLoad) close() { _ = l.endpoint.Close() }

// setLimits sets the number of messages in flight and of a burst. 0 keeps the defaults. More messages in flight get
// more time.
func (l *gameLoad) setLimits(flight, burst int) {
	if flight > 0 {
		l.flight = flight
		l.patience = max(l.patience, time.Duration(flight)*slowMessage)
	}
	l.burst = max(burst, 1)
}

// slowMessage is the time of a slow subject for a message and its echo.
const slowMessage = 200 * time.Microsecond

func (l *gameLoad) stats() *traffic { return l.traffic }

func (l *gameLoad) event(_ *endpoint.Conn[struct{}], e *codec.Event) {
	switch e.Kind {
	case codec.Connected:
		l.connected++
	case codec.Received:
		l.now = l.endpoint.Now()
		l.form.stamps(&e.Message, l.take)
	case codec.Disconnected:
		l.lost++
		l.why = e.Reason
	}
}

// warmUpMessages is the number of messages of each client before measuring: connections allocate their memory with
// them.
const warmUpMessages = 8

// open connects all clients, some at a time. Then each client sends its first messages, unless the load is idle.
func (l *gameLoad) open() error {
	for i := range l.wanted {
		c, err := l.endpoint.Dial(l.protocol, l.to, codec.Hello{Identity: uint64(i) + 1}, clientEndpoint(uint64(i)))
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		l.clients = append(l.clients, c)
		if err := l.await(len(l.clients) - joinsInFlight); err != nil {
			return err
		}
	}
	if err := l.await(l.wanted); err != nil {
		return err
	}
	for range warmUpMessages * l.wanted {
		if l.idle {
			break
		}
		for l.inFlight >= l.flight {
			if err := l.turn(time.Now().Add(lostAfter / 5)); err != nil {
				return err
			}
			l.giveUp()
		}
		l.send(time.Now())
	}
	for quiet := time.Now().Add(300 * time.Millisecond); time.Now().Before(quiet); {
		if err := l.turn(quiet); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a number of clients are connected. It waits at most joinTime from one to the next.
func (l *gameLoad) await(clients int) error {
	const joinTime = 5 * time.Second
	for n, give := l.connected, time.Now().Add(joinTime); l.connected < clients; {
		if err := l.turn(give); err != nil {
			return err
		}
		if time.Now().After(give) {
			return fmt.Errorf("%d of %d clients are connected, and no more connect", l.connected, l.wanted)
		}
		if l.connected > n {
			n, give = l.connected, time.Now().Add(joinTime)
		}
	}
	return nil
}

func (l *gameLoad) send(at time.Time) {
	c := l.clients[l.next]
	if l.inBurst++; l.inBurst >= l.burst {
		l.next, l.inBurst = (l.next+1)%len(l.clients), 0
	}
	l.stamp(l.body, at)
	_ = c.Send(l.endpoint.Now(), l.form.message(l.body)) // a message without room counts as lost
	l.endpoint.Touch(c)
}

func (l *gameLoad) turn(until time.Time) error {
	err := l.endpoint.Turn(until)
	l.now = l.endpoint.Now()
	if err == nil {
		err = context.Cause(l.ctx)
	}
	if err == nil && l.lost > 0 {
		err = fmt.Errorf("%d of %d clients are connected, %d lost their connection: %v", l.connected-l.lost, l.wanted, l.lost,
			l.why)
	}
	return err
}
