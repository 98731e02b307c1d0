package proxy_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gorak "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/codec/raknet"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/heavy"
	"tidegate/internal/testkit/rakserver"
	"tidegate/internal/webrtc"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// webPlayer is a NetherNet client on a real socket. Its join over HTTP has already been answered.
type webPlayer struct {
	t      *testing.T
	conn   *nethernet.Conn
	socket *net.UDPConn
	ticket *joining.Ticket
	woken  chan struct{}
	quit   chan struct{}

	mu     sync.Mutex
	events []codec.Event
	got    chan []byte
}

// webWorld is a proxy with NetherNet clients before a server of go-raknet.
type webWorld struct {
	*running
	t          *testing.T
	tickets    *joining.Tickets
	host, ours *webrtc.Host // of the proxy and of the players
	players    atomic.Int32
}

func startWeb(t *testing.T, backend netio.Backend, server netip.AddrPort, players int) *webWorld {
	t.Helper()
	w := &webWorld{t: t}
	limits := joining.DefaultLimits
	limits.Unfinished, limits.Network = players+10, players+10
	w.tickets = joining.NewTickets(limits, nil)
	stacks := webrtc.DefaultLimits
	stacks.Unopened = players + 10
	for _, to := range []**webrtc.Host{&w.host, &w.ours} {
		h, err := webrtc.NewHost(stacks, [32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		*to = h
		t.Cleanup(func() {
			await.Until(t, "all stacks have ended", func() bool { n, _ := h.Sizes(); return n == 0 })
		})
	}
	bedrock := raknet.New(raknet.Options{Name: "bedrock", DialVersion: 11, OrderedOnly: true, MaxMTU: 1400})
	loops := 2
	if backend == netio.Portable {
		loops = 1
	}
	w.running = startWith(t, backend, loops, relay.NetherNet, bedrock, server, func(s *relay.Settings) {
		s.Listeners[0].Joins, s.Listeners[0].Stacks = w.tickets, w.host
		s.Limits.Sessions, s.Limits.HalfOpen = players+10, players+10
		s.DrainGrace = 0
	})
	return w
}

// ticket returns a join that the proxy has answered. The player's certificate has the fingerprint.
func (w *webWorld) ticket(of nethernet.Fingerprint) (*joining.Ticket, error) {
	now, name := time.Now(), fmt.Sprint(w.players.Add(1))
	ticket, err := w.tickets.Ask(now, name, "arena", anyPort.Addr(), w.addr)
	if err != nil {
		return nil, err
	}
	ticket.ServerUfrag, ticket.ServerPassword, ticket.ClientUfrag = "srv"+name, "password of 22 letters", "cli"+name
	ticket.Peer = &nethernet.Peer{Fingerprints: []nethernet.Fingerprint{of}}
	ticket.Target = w.addr
	return ticket, w.tickets.Answer(now, ticket)
}

// self is what the proxy has said of itself.
func (w *webWorld) self() *nethernet.Peer {
	return &nethernet.Peer{
		Fingerprints: []nethernet.Fingerprint{w.host.Fingerprint()}, MaxMessageSize: nethernet.MaxFragment,
	}
}

// join lets a player come in.
func (w *webWorld) join() *webPlayer {
	w.t.Helper()
	ticket, err := w.ticket(w.ours.Fingerprint())
	if err != nil {
		w.t.Fatal(err)
	}
	p := &webPlayer{
		t: w.t, ticket: ticket, woken: make(chan struct{}, 1), quit: make(chan struct{}), got: make(chan []byte, 1000),
	}
	if p.socket, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(w.addr)); err != nil {
		w.t.Fatal(err)
	}
	stack, err := w.ours.Dial(w.self(), p.wake)
	if err != nil {
		w.t.Fatal(err)
	}
	p.conn = nethernet.NewConn(stack, true)
	go p.hear()
	go p.run()
	w.t.Cleanup(func() {
		stack.Abandon()
		close(p.quit)
		_ = p.socket.Close()
	})
	p.check()
	await.Until(w.t, "the player is connected", func() bool { return p.has(codec.Connected) })
	return p
}

// check sends a client's check of its path.
func (p *webPlayer) check() {
	c := nethernet.Check{
		ID: nethernet.TransactionID{1}, To: p.ticket.Told().ServerUfrag, From: p.ticket.Told().ClientUfrag, Nominates: true,
		Role: nethernet.Controlling,
	}
	_, _ = p.socket.Write(nethernet.NewIntegrity().AppendCheck(nil, c, p.ticket.Told().ServerPassword))
}

func (p *webPlayer) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

func (p *webPlayer) hear() {
	b := make([]byte, 2048)
	for {
		n, err := p.socket.Read(b)
		if err != nil {
			return
		}
		if nethernet.KindOf(b[:n]) == nethernet.DTLS {
			p.mu.Lock()
			_ = p.conn.Receive(time.Now(), b[:n])
			p.mu.Unlock()
		}
	}
}

func (p *webPlayer) run() {
	for {
		select {
		case <-p.quit:
			return
		case <-p.woken:
		}
		p.mu.Lock()
		p.conn.Advance(time.Now())
		for {
			ev, ok := p.conn.Poll()
			if !ok {
				break
			}
			if ev.Kind == codec.Received {
				p.got <- bytes.Clone(ev.Payload)
			} else {
				p.events = append(p.events, ev)
			}
		}
		for {
			b, ok := p.conn.Transmit(time.Now(), nil)
			if !ok {
				break
			}
			_, _ = p.socket.Write(b)
		}
		p.mu.Unlock()
	}
}

func (p *webPlayer) has(kind codec.EventKind) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.events, func(ev codec.Event) bool { return ev.Kind == kind })
}

func (p *webPlayer) send(payload []byte) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.conn.Send(time.Now(), codec.Message{Payload: payload, Mode: codec.ReliableOrdered}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *webPlayer) receive() []byte {
	p.t.Helper()
	select {
	case m := <-p.got:
		return m
	case <-time.After(await.Patience):
		p.t.Fatal("no message")
		return nil
	}
}

// dismissed lets an upgrade fail, after which the players must play on. Another one succeeds: players read that they
// must join again. It returns false if the backend cannot hand over.
func dismissed(t *testing.T, s *proxy.Server, players int, plays func()) bool {
	t.Helper()
	for _, succeeds := range []bool{false, true} {
		s.HoldStacked()
		frozen, err := s.Freeze()
		if err == proxy.ErrNoHandover {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if !succeeds {
			frozen.Thaw()
			s.AllowStacked()
			plays()
			continue
		}
		if n, behind := frozen.DismissStacked(); n != players || behind != 0 {
			t.Errorf("%d players were told to join again, and %d could not read it", n, behind)
		}
		frozen.Leave()
	}
	return true
}

// TestStackedServer plays through a Server on real sockets: messages in order, a large one, and the end, in which the
// player reads why.
func TestStackedServer(t *testing.T) {
	for _, backend := range []netio.Backend{netio.Epoll, netio.Portable} {
		t.Run(backend.String(), func(t *testing.T) {
			var left atomic.Int32
			w := startWeb(t, backend, rakserver.Start(t, func(c *gorak.Conn) {
				rakserver.Echo(c)
				left.Add(1)
			}), 2)
			p, other := w.join(), w.join()
			for i := range 500 {
				p.send(fmt.Appendf(nil, "\xfemessage %d", i))
			}
			other.send([]byte("\xfeother"))
			for i := range 500 {
				if got, want := string(p.receive()), fmt.Sprintf("\xfemessage %d", i); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
			}
			large := append([]byte{0xfe}, bytes.Repeat([]byte("tide"), 50_000)...)
			p.send(large)
			if got := p.receive(); !bytes.Equal(got, large) {
				t.Fatalf("%d bytes became %d", len(large), len(got))
			}
			if got := other.receive(); string(got) != "\xfeother" {
				t.Errorf("%q", got)
			}
			if !dismissed(t, w.server, 2, func() {
				p.send([]byte("\xfestill"))
				if got := p.receive(); string(got) != "\xfestill" {
					t.Errorf("after an upgrade that has failed: %q", got)
				}
			}) {
				return
			}
			began := time.Now()
			await.Until(t, "the server hears of the end", func() bool { return left.Load() == 2 })
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("the server got no goodbye, and gave the players up after %v: it does after 5 s", took)
			}
			for _, one := range []*webPlayer{p, other} {
				if last := one.receive(); !bytes.Contains(last, []byte("join again")) {
					t.Errorf("%q", last)
				}
			}
		})
	}
}

// TestStackedLatency measures the round trip of small messages with many sessions, beside that of RakNet players.
func TestStackedLatency(t *testing.T) {
	heavy.Skip(t)
	const players, rounds = 200, 50
	w := startWeb(t, netio.Epoll, rakserver.Start(t, rakserver.Echo), players)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, goroutines := m.HeapAlloc+m.StackInuse, runtime.NumGoroutine()
	all := make([]*webPlayer, players)
	for i := range all {
		all[i] = w.join()
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("both ends, with the test's: %d KiB and %d goroutines a session",
		(m.HeapAlloc+m.StackInuse-before)/players/1024, (runtime.NumGoroutine()-goroutines)/players)
	var took []time.Duration
	for range rounds {
		for _, p := range all {
			began := time.Now()
			p.send([]byte("\xfeping"))
			p.receive()
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	t.Logf("round trip: p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
}
