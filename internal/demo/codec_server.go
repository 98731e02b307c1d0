package demo

import (
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

// codecServer is a small game server on one of our own codecs. It returns every message, and records which messages
// have arrived.
type codecServer struct {
	*endpoint.Endpoint[struct{}]
	protocol codec.Protocol
	form     form
	listener *endpoint.Listener
	arrived  arrivals
	stopped  atomic.Bool
	done     chan struct{}
}

// startCodecServer starts a game server for a number of clients.
func startCodecServer(pair Pair, at netip.AddrPort, clients int) (*codecServer, error) {
	s := &codecServer{
		protocol: pair.to, form: formOf(pair, pair.to), arrived: make(arrivals), done: make(chan struct{}),
	}
	var err error
	if s.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: s.event, Limit: clients}); err != nil {
		return nil, err
	}
	if s.listener, err = listen(s.Endpoint, pair.to, at); err != nil {
		_ = s.Close() // the earlier error matters more
		return nil, err
	}
	go s.run()
	return s, nil
}

func (s *codecServer) addr() netip.AddrPort { return s.listener.Addr() }

// stop closes the socket and returns the messages that have arrived. Open connections end without a goodbye.
func (s *codecServer) stop() arrivals {
	s.stopped.Store(true)
	s.Wake()
	<-s.done
	_ = s.Close() // nothing can be lost any more
	return s.arrived
}

// run turns until stop. An error ends it: then no message returns, which the result shows.
func (s *codecServer) run() {
	defer close(s.done)
	for !s.stopped.Load() && s.Turn(time.Time{}) == nil {
	}
}

func (s *codecServer) event(c *endpoint.Conn[struct{}], e *codec.Event) {
	switch e.Kind {
	case codec.Connected:
		s.greet(c)
	case codec.Received:
		s.echo(c, &e.Message)
	}
}

// greet describes the world to a new client, if the protocol has a world.
func (s *codecServer) greet(c *endpoint.Conn[struct{}]) {
	if !s.form.world {
		return
	}
	for _, text := range greetings {
		_ = c.Send(s.Now(), s.form.greeting(text, mode(s.protocol))) // a new connection has room
	}
}

// echo records the probes of a message and replies to it in the strongest mode. A reply without room is missing at the
// client.
func (s *codecServer) echo(c *endpoint.Conn[struct{}], m *codec.Message) {
	_ = s.form.probes(m, s.arrived.record) // the client finds changed messages
	s.form.replies(m, c.Number, mode(s.protocol), func(reply codec.Message) { _ = c.Send(s.Now(), reply) })
}
