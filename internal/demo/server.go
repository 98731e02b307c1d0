package demo

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

// server is a game server that returns messages.
type server interface {
	addr() netip.AddrPort
	// stop closes the socket and returns the arrivals that the server recorded, if any.
	stop() arrivals
}

// gameServer is a small game server on go-raknet. It returns every message. go-raknet sends only reliable ordered
// messages, so the echo of an unreliable message is reliable.
type gameServer struct {
	form     form
	listener *raknet.Listener
	serving  sync.WaitGroup
}

// startGameServer starts a server that records nothing: its protocol resends.
func startGameServer(pair Pair, at netip.AddrPort, _ bool) (server, error) {
	// go-raknet blocks an IP address after one bad datagram; here all clients have the proxy's address.
	listener, err := raknet.ListenConfig{BlockDuration: -1}.Listen(at.String())
	if err != nil {
		return nil, err
	}
	g := &gameServer{form: formOf(pair, pair.to), listener: listener}
	g.serving.Go(g.accept)
	return g, nil
}

func (g *gameServer) addr() netip.AddrPort { return g.listener.Addr().(*net.UDPAddr).AddrPort() }

// stop leaves open connections, which end by themselves.
func (g *gameServer) stop() arrivals {
	_ = g.listener.Close() // nothing can be lost any more
	g.serving.Wait()
	return nil
}

func (g *gameServer) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return // stopped
		}
		go g.serve(conn.(*raknet.Conn))
	}
}

// serve serves one client until it leaves. The next read detects that it is gone, so writes may fail.
func (g *gameServer) serve(conn *raknet.Conn) {
	g.form.greet(codec.ReliableOrdered, func(m codec.Message) { _, _ = conn.Write(m.Payload) })
	for {
		message, err := conn.ReadPacket()
		if err != nil {
			return
		}
		_, _ = conn.Write(message)
	}
}

// codecServer is a small game server on one of our own codecs. It returns every message, and may record which messages
// have arrived.
type codecServer struct {
	*endpoint.Endpoint[struct{}]
	form     form
	mode     codec.Mode
	listener *endpoint.Listener
	arrived  arrivals // nil: it records none
	stopped  atomic.Bool
	done     chan struct{}
}

func startCodecServer(pair Pair, at netip.AddrPort, records bool) (server, error) {
	s := &codecServer{form: formOf(pair, pair.to), mode: mode(pair.to), done: make(chan struct{})}
	if records {
		s.arrived = make(arrivals)
	}
	var err error
	if s.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: s.event}); err != nil {
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

// stop ends open connections without a goodbye.
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

// event greets new clients, and records and answers messages. A reply without room is missing at the client.
func (s *codecServer) event(c *endpoint.Conn[struct{}], e *codec.Event) {
	switch m := e.Message; e.Kind {
	case codec.Connected:
		s.form.greet(s.mode, func(m codec.Message) { _ = c.Send(s.Now(), m) })
	case codec.Received:
		_ = s.form.probes(&m, s.arrived.record) // the client finds changed messages
		_ = c.Send(s.Now(), codec.Message{Payload: m.Payload, Pad: m.Pad, Mode: s.mode, ID: m.ID, HasID: m.HasID})
	}
}
