package raknet_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// line is a path of datagrams in the virtual time of a synctest bubble, between one client and one server. go-raknet
// runs on it unchanged. The line delays each datagram, and loses some after lose is called.
type line struct {
	loss               float64
	rate, queue        int // to the client, in bytes a second, and bytes that wait for it; 0: no bound
	toClient, toServer *linePipe
}

const (
	lineDelay = 25 * time.Millisecond // in each direction
	lineRoom  = 1 << 17               // datagrams
)

func newLine(seed uint64, loss float64, rate, queue int) *line {
	return &line{
		loss: loss, rate: rate, queue: queue, toClient: newLinePipe(seed, rate, queue), toServer: newLinePipe(seed+1, 0, 0),
	}
}

// lose starts the losses.
func (l *line) lose() {
	for _, p := range []*linePipe{l.toClient, l.toServer} {
		p.lose(l.loss)
	}
}

// lose starts the losses of one direction.
func (p *linePipe) lose(share float64) {
	p.mu.Lock()
	p.loss, p.carried, p.lost = share, 0, 0
	p.mu.Unlock()
}

// close ends the line, whose ends send no more.
func (l *line) close() {
	for _, p := range []*linePipe{l.toClient, l.toServer} {
		p.mu.Lock()
		close(p.late)
		p.mu.Unlock()
	}
}

// linePipe is one direction of a line.
type linePipe struct {
	late    chan lateDatagram
	arrived chan []byte

	mu            sync.Mutex
	rng           *rand.Rand
	loss          float64
	rate, queue   int
	free          time.Time // when the last datagram has left the queue
	carried, lost int
}

func newLinePipe(seed uint64, rate, queue int) *linePipe {
	p := &linePipe{
		rng: rand.New(rand.NewPCG(seed, 5)), rate: rate, queue: queue,
		late: make(chan lateDatagram, lineRoom), arrived: make(chan []byte, lineRoom),
	}
	go func() {
		for d := range p.late {
			time.Sleep(time.Until(d.at))
			p.arrived <- d.b
		}
	}()
	return p
}

func (p *linePipe) send(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carried++
	at := time.Now()
	if p.loss > 0 && p.rng.Float64() < p.loss {
		p.lost++
		return
	}
	if p.rate > 0 {
		if p.free.Before(at) {
			p.free = at
		}
		if int(p.free.Sub(at).Seconds()*float64(p.rate))+len(b) > p.queue {
			p.lost++
			return
		}
		p.free = p.free.Add(time.Duration(len(b)) * time.Second / time.Duration(p.rate))
		at = p.free
	}
	p.late <- lateDatagram{at.Add(lineDelay), bytes.Clone(b)}
}

func (p *linePipe) counts() (carried, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carried, p.lost
}

// Addresses of the two ends.
var (
	lineServer = netip.MustParseAddrPort("198.51.100.1:19132")
	lineClient = netip.MustParseAddrPort("192.0.2.1:40000")
)

// lineEnd is one end of a line, as go-raknet wants it.
type lineEnd struct {
	in, out *linePipe
	closed  chan struct{}
	once    sync.Once
}

func (l *line) client() *lineEnd {
	return &lineEnd{in: l.toClient, out: l.toServer, closed: make(chan struct{})}
}

func (l *line) server() *lineEnd {
	return &lineEnd{in: l.toServer, out: l.toClient, closed: make(chan struct{})}
}

func (e *lineEnd) Read(b []byte) (int, error) {
	select {
	case d := <-e.in.arrived:
		return copy(b, d), nil
	case <-e.closed:
		return 0, net.ErrClosed
	}
}

func (e *lineEnd) Write(b []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, net.ErrClosed
	default:
		e.out.send(b)
		return len(b), nil
	}
}

func (e *lineEnd) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := e.Read(b)
	return n, net.UDPAddrFromAddrPort(lineClient), err
}

func (e *lineEnd) WriteTo(b []byte, _ net.Addr) (int, error) { return e.Write(b) }

func (e *lineEnd) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func (e *lineEnd) LocalAddr() net.Addr              { return net.UDPAddrFromAddrPort(lineServer) }
func (e *lineEnd) RemoteAddr() net.Addr             { return net.UDPAddrFromAddrPort(lineServer) }
func (e *lineEnd) SetDeadline(time.Time) error      { return nil }
func (e *lineEnd) SetReadDeadline(time.Time) error  { return nil }
func (e *lineEnd) SetWriteDeadline(time.Time) error { return nil }

// ListenPacket and DialContext give go-raknet this end in place of a socket.
func (e *lineEnd) ListenPacket(string, string) (net.PacketConn, error) { return e, nil }

func (e *lineEnd) DialContext(context.Context, string, string) (net.Conn, error) { return e, nil }

// lineGame is our server at one end of a line.
type lineGame struct {
	t         testing.TB
	end       *lineEnd
	protocol  *raknet.Protocol
	conn      codec.Conn
	restores  bool // it is saved and restored at each input, as by upgrades
	calls     chan func(time.Time)
	connected chan struct{}
}

// startLineGame starts a server that accepts one client. It ends when its end is closed.
func startLineGame(t testing.TB, end *lineEnd, o raknet.Options) *lineGame {
	g := &lineGame{
		t: t, end: end, protocol: raknet.New(o), calls: make(chan func(time.Time)), connected: make(chan struct{}),
	}
	go g.run()
	return g
}

func (g *lineGame) run() {
	for {
		var timer <-chan time.Time
		if g.conn != nil {
			g.pump(time.Now())
			if at := g.conn.NextTimeout(); !at.IsZero() {
				timer = time.After(time.Until(at))
			}
		}
		select {
		case <-g.end.closed:
			return
		case b := <-g.end.in.arrived:
			g.take(time.Now(), b)
		case <-timer:
			g.conn.Advance(time.Now())
		case f := <-g.calls:
			f(time.Now())
		}
	}
}

func (g *lineGame) take(now time.Time, b []byte) {
	if g.conn != nil {
		_ = g.conn.Receive(now, b)
		return
	}
	conn, reply, _ := g.protocol.Accept(now, lineClient, b, nil)
	if len(reply) > 0 {
		g.end.out.send(reply)
	}
	g.conn = conn
}

func (g *lineGame) pump(now time.Time) {
	for e, ok := g.conn.Poll(); ok; e, ok = g.conn.Poll() {
		switch e.Kind {
		case codec.Asked:
			g.conn.Admit(now, 1)
		case codec.Connected:
			close(g.connected)
		}
	}
	for b, ok := g.conn.Transmit(now, nil); ok; b, ok = g.conn.Transmit(now, nil) {
		g.end.out.send(b)
	}
	if g.restores {
		conn, err := g.protocol.Restore(now, nil, g.conn.Save(now, nil))
		if err != nil {
			g.t.Errorf("restore: %v", err)
			return
		}
		g.conn = conn
	}
}

func (g *lineGame) send(payload []byte) {
	g.calls <- func(now time.Time) {
		if err := g.conn.Send(now, codec.Message{Payload: payload, Mode: codec.ReliableOrdered}); err != nil {
			g.t.Errorf("send: %v", err)
		}
	}
}

func (g *lineGame) stats() codec.Stats {
	stats := make(chan codec.Stats)
	g.calls <- func(time.Time) { stats <- g.conn.Stats() }
	return <-stats
}
