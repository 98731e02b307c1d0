package demo

import (
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
)

// codecServer is a small game server on the server side of one of our own codecs: it sends every message back to whom
// it came from, and keeps the books of what reached it.
type codecServer struct {
	protocol codec.Protocol
	form     form
	poller   netio.Poller
	socket   netio.Socket
	guests   []*guest
	byAddr   map[netip.AddrPort]*guest // at most limit
	limit    int
	welcomed uint16    // guests so far
	now      time.Time // of this turn
	books    arrivals
	stopped  atomic.Bool
	done     chan struct{}
}

// guest is a player on the server, as far as it knows.
type guest struct {
	number uint16
	socket netio.Socket // by which the guest comes
	addr   netip.AddrPort
	conn   codec.Conn
	gone   bool
}

// startCodecServer opens a game server for a number of players.
func startCodecServer(pair Pair, players int) (*codecServer, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	socket, err := listen(poller, pair.to)
	if err != nil {
		_ = poller.Close() // the error that matters is the one before
		return nil, err
	}
	s := &codecServer{
		protocol: pair.to,
		form:     formOf(pair, pair.to),
		poller:   poller,
		socket:   socket,
		byAddr:   make(map[netip.AddrPort]*guest),
		limit:    players,
		books:    make(arrivals),
		done:     make(chan struct{}),
	}
	go s.run()
	return s, nil
}

func (s *codecServer) addr() netip.AddrPort { return s.socket.Addr() }

// stop closes the socket and returns what reached the server. Connections that are left are left without a goodbye.
func (s *codecServer) stop() arrivals {
	s.stopped.Store(true)
	s.poller.Wake()
	<-s.done
	_ = s.poller.Close() // nothing is left to be lost
	return s.books
}

func (s *codecServer) run() {
	defer close(s.done)
	for !s.stopped.Load() {
		// Without the server no message comes back, which the result shows.
		if s.poller.Wait(s.nextTimeout()) != nil {
			return
		}
		s.now = time.Now()
		s.poller.Receive(s)
		for _, g := range s.guests {
			if t := g.conn.NextTimeout(); !t.IsZero() && !s.now.Before(t) {
				g.conn.Advance(s.now)
				s.settle(g)
			}
			s.transmit(g)
		}
		s.forget()
		s.poller.Flush()
	}
}

// Datagram implements netio.Handler.
func (s *codecServer) Datagram(by netio.Socket, from netip.AddrPort, datagram []byte) {
	g := s.byAddr[from]
	if g == nil {
		if g = s.welcome(by, from, datagram); g == nil {
			return
		}
	} else {
		_ = g.conn.Receive(s.now, datagram) // what the connection drops it counts
	}
	s.settle(g)
}

// Failed implements netio.Handler: a guest's stream has ended, and so has the guest.
func (s *codecServer) Failed(by netio.Socket, _ error) {
	if g := s.byAddr[by.Peer()]; g != nil {
		g.gone = true
	}
}

// welcome makes a guest of a newcomer, if the datagram makes one and there is room.
func (s *codecServer) welcome(by netio.Socket, from netip.AddrPort, datagram []byte) *guest {
	if len(s.byAddr) == s.limit || !s.protocol.Sniff(datagram) {
		return nil
	}
	conn, reply, err := s.protocol.Accept(s.now, from, datagram, s.poller.Buffer())
	if err == nil && len(reply) > 0 {
		s.poller.Send(by, from, reply)
	}
	if conn == nil {
		return nil
	}
	s.welcomed++
	g := &guest{number: s.welcomed, socket: by, addr: from, conn: conn}
	s.guests = append(s.guests, g)
	s.byAddr[from] = g
	return g
}

// settle handles the events of a guest's connection.
func (s *codecServer) settle(g *guest) {
	for e, ok := g.conn.Poll(); ok; e, ok = g.conn.Poll() {
		switch e.Kind {
		case codec.Asked:
			g.conn.Admit(s.now, g.number)
		case codec.Connected:
			s.greet(g)
		case codec.Received:
			s.echo(g, &e.Message)
		case codec.Disconnected:
			g.gone = true
		}
	}
}

// greet tells a newcomer of the world, where there is one.
func (s *codecServer) greet(g *guest) {
	if !s.form.world {
		return
	}
	for _, text := range greetings {
		_ = g.conn.Send(s.now, s.form.greeting(text, mode(s.protocol))) // a new connection has room
	}
}

// echo books what is in a message and replies to it, in the strongest mode. A reply for which there is no room is
// missed by its player.
func (s *codecServer) echo(g *guest, m *codec.Message) {
	_ = s.form.probes(m, s.books.book) // what was changed its player finds out
	s.form.replies(m, g.number, mode(s.protocol), func(reply codec.Message) { _ = g.conn.Send(s.now, reply) })
}

func (s *codecServer) transmit(g *guest) {
	for {
		b, ok := g.conn.Transmit(s.now, s.poller.Buffer())
		if !ok {
			return
		}
		s.poller.Send(g.socket, g.addr, b)
	}
}

// forget lets go of guests that are gone, and of their streams.
func (s *codecServer) forget() {
	kept := s.guests[:0]
	for _, g := range s.guests {
		if g.gone {
			delete(s.byAddr, g.addr)
			if g.socket != s.socket {
				g.socket.Close()
			}
		} else {
			kept = append(kept, g)
		}
	}
	clear(s.guests[len(kept):])
	s.guests = kept
}

// nextTimeout is when the next connection has something to do; zero means never.
func (s *codecServer) nextTimeout() time.Time {
	var next time.Time
	for _, g := range s.guests {
		if t := g.conn.NextTimeout(); !t.IsZero() {
			next = codec.Earliest(next, t)
		}
	}
	return next
}
