package nethernet

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	wire "tidegate/codec/nethernet"
	"tidegate/internal/joining"
	"tidegate/internal/signalling"
	"tidegate/ratelimit"
)

// edge is the smallest edge that can work: one UDP socket for all clients, and one towards the server for each session.
// It has no bounds, and forwards one datagram at a time.
type edge struct {
	t       *testing.T
	tickets *joining.Tickets
	udp     *net.UDPConn
	http    string // host and port

	mu        sync.Mutex
	sessions  map[*joining.Ticket]*session
	sources   map[netip.AddrPort]*session
	integrity *wire.Integrity
	dropped   int // datagrams
	alerts    int // DTLS datagrams of either side that may close
	over      []joining.Join
}

// session is one admitted client.
type session struct {
	ticket  *joining.Ticket
	sources wire.Sources
	server  *net.UDPConn
	moves   int // of the active source
}

// startEdge serves joins of a server at an HTTP address. The answers name the candidate, or the edge itself.
func startEdge(t *testing.T, server netip.AddrPort, candidate func(edge netip.AddrPort) netip.AddrPort) *edge {
	t.Helper()
	udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback))
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{
		t: t, udp: udp, sessions: make(map[*joining.Ticket]*session), sources: make(map[netip.AddrPort]*session),
		integrity: wire.NewIntegrity(),
	}
	e.tickets = joining.NewTickets(joining.DefaultLimits, func(j joining.Join) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.over = append(e.over, j)
	})
	named := e.addr()
	if candidate != nil {
		named = candidate(named)
	}
	to := signalling.Backend{Addr: server, AnyAddress: true} // some servers leave loopback out
	s := signalling.New(signalling.Options{
		Tickets:    e.tickets,
		Pick:       func(netip.Addr, bool, netip.AddrPort) (signalling.Backend, error) { return to, nil },
		Candidates: func(netip.Addr) []netip.AddrPort { return []netip.AddrPort{named} },
		Rates:      ratelimit.Rates{Overall: 10_000, Network: 10_000},
	})
	l, err := net.Listen("tcp4", loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	e.http = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(ctx, l) })
	all.Go(e.fromClients)
	t.Cleanup(func() {
		cancel()
		_ = udp.Close()
		e.mu.Lock()
		for _, s := range e.sessions {
			_ = s.server.Close()
		}
		e.mu.Unlock()
		all.Wait()
	})
	return e
}

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// begin is the moment from which sources count time.
var begin = time.Now()

func (e *edge) addr() netip.AddrPort { return e.udp.LocalAddr().(*net.UDPAddr).AddrPort() }

// fromClients forwards datagrams of clients until the socket closes.
func (e *edge) fromClients() {
	buffer := make([]byte, 65536)
	for {
		n, from, err := e.udp.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		e.mu.Lock()
		if s := e.admit(time.Now(), from, buffer[:n]); s != nil {
			e.count(buffer[:n])
			_, _ = s.server.Write(buffer[:n])
		} else {
			e.dropped++
		}
		e.mu.Unlock()
	}
}

// admit returns the session that a datagram belongs to, or nil to drop it.
func (e *edge) admit(now time.Time, from netip.AddrPort, datagram []byte) *session {
	var b wire.Binding
	s := e.sources[from]
	isRequest := wire.KindOf(datagram) == wire.STUN && b.Parse(datagram) == nil && b.Class == wire.Request
	if !isRequest {
		if s == nil || !s.heard(now, from, datagram) {
			return nil
		}
		return s
	}
	ticket := e.tickets.Find(now, b.Username)
	if ticket == nil || s != nil && s.ticket != ticket || !b.IsWhole() ||
		!e.integrity.Verify(&b, ticket.Told().ServerPassword) {
		return nil
	}
	if s == nil {
		s = e.sessions[ticket]
	}
	if s == nil {
		server, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(ticket.Told().Target))
		if err != nil {
			e.t.Error(err)
			return nil
		}
		s = &session{ticket: ticket, server: server}
		go e.fromServer(s)
	}
	before := s.sources.Active()
	if s.sources.Request(now.Sub(begin), from, &b) != nil {
		return nil
	}
	if _, ok := e.tickets.Admit(now, ticket, from, 0); !ok {
		return nil
	}
	s.note(before)
	e.sessions[ticket], e.sources[from] = s, s
	return s
}

func (s *session) heard(now time.Time, from netip.AddrPort, datagram []byte) bool {
	before := s.sources.Active()
	defer s.note(before)
	return s.sources.Heard(now.Sub(begin), from, datagram)
}

// note counts moves of a session.
func (s *session) note(before netip.AddrPort) {
	if before.IsValid() && before != s.sources.Active() {
		s.moves++
	}
}

// fromServer forwards a server's datagrams until the socket closes.
func (e *edge) fromServer(s *session) {
	buffer := make([]byte, 65536)
	for {
		n, err := s.server.Read(buffer)
		if err != nil {
			return
		}
		e.mu.Lock()
		to := s.sources.To(buffer[:n])
		e.count(buffer[:n])
		e.mu.Unlock()
		_, _ = e.udp.WriteToUDPAddrPort(buffer[:n], to)
	}
}

func (e *edge) count(datagram []byte) {
	if wire.MayClose(datagram) {
		e.alerts++
	}
}

// look calls f with the only session.
func (e *edge) look(f func(*session)) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sessions) != 1 {
		e.t.Fatalf("%d sessions", len(e.sessions))
	}
	for _, s := range e.sessions {
		f(s)
	}
}

// nat stands between a client and an edge. rebind gives the client another port.
type nat struct {
	inner *net.UDPConn
	edge  netip.AddrPort

	mu       sync.Mutex
	outer    *net.UDPConn
	client   netip.AddrPort
	recorded [][]byte // STUN requests of the client
}

func startNAT(t *testing.T, edge netip.AddrPort) *nat {
	t.Helper()
	return startNATAt(t, edge, loopback)
}

// startNATAt is startNAT with an address of its own.
func startNATAt(t *testing.T, edge, at netip.AddrPort) *nat {
	t.Helper()
	inner, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	n := &nat{inner: inner, edge: edge}
	n.rebind(t)
	go n.out()
	t.Cleanup(func() {
		_ = inner.Close()
		n.mu.Lock()
		defer n.mu.Unlock()
		_ = n.outer.Close()
	})
	return n
}

func (n *nat) addr() netip.AddrPort { return n.inner.LocalAddr().(*net.UDPAddr).AddrPort() }

// rebind makes a new outer port. Datagrams to the old one are lost.
func (n *nat) rebind(t *testing.T) {
	t.Helper()
	outer, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(n.edge))
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outer != nil {
		_ = n.outer.Close()
	}
	n.outer = outer
	go n.back(outer)
}

func (n *nat) out() {
	buffer := make([]byte, 65536)
	for {
		size, from, err := n.inner.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.client = from
		if wire.IsSTUN(buffer[:size]) && buffer[0] == 0 && len(n.recorded) < 1000 {
			n.recorded = append(n.recorded, append([]byte(nil), buffer[:size]...))
		}
		_, _ = n.outer.Write(buffer[:size])
		n.mu.Unlock()
	}
}

func (n *nat) back(outer *net.UDPConn) {
	buffer := make([]byte, 65536)
	for {
		size, err := outer.Read(buffer)
		if err != nil {
			return
		}
		n.mu.Lock()
		to := n.client
		n.mu.Unlock()
		_, _ = n.inner.WriteToUDPAddrPort(buffer[:size], to)
	}
}
