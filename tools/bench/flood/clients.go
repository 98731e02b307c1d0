package flood

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/tools/bench/edge"
	"tidegate/tools/bench/process"
	"tidegate/tools/bench/scenario"
)

// Listeners of a subject.
const (
	rakNetListener  = iota // RakNet, terminated
	riptideListener        // Riptide, terminated
	relayListener          // RakNet, relayed
	edgeListener           // NetherNet, relayed
	listeners
)

// theEdge counts what its server must not see.
var theEdge = newEdge()

// spoken is the protocol of each listener.
var spoken = [listeners]codec.Protocol{
	rakNetListener:  raknet.New(raknet.Options{}),
	riptideListener: riptide.New(riptide.Options{}),
	relayListener:   raknet.New(raknet.Options{}),
	edgeListener:    theEdge,
}

// conn is a connection of a client or of a game server. Only a client's has a Value.
type conn = endpoint.Conn[*client]

// client has the counts of one client.
type client struct {
	listener       int
	next           time.Time // of the next turn
	sent, returned [2]uint64 // unreliable and reliable messages
	connected      bool
	gone           bool
}

// clients are all clients and the game servers, in one loop. In each turn a client sends one reliable and one
// unreliable message, which the game server returns.
type clients struct {
	*endpoint.Endpoint[*client]
	ctx       context.Context // its end ends the measurement
	servers   [listeners]*endpoint.Listener
	joins     net.Listener // of the edge's server
	conns     []*conn      // of the clients
	began     time.Time
	since     time.Time // messages that were due earlier do not count
	every     time.Duration
	sending   bool
	delays    *hdrhistogram.Histogram // round trips of reliable messages
	late      *hdrhistogram.Histogram // how much too late clients sent their messages
	recording recording
}

func newClients(ctx context.Context, rate int) (*clients, error) {
	c := &clients{
		ctx: ctx, every: time.Second / time.Duration(rate), delays: scenario.NewDelays(), late: scenario.NewDelays(),
	}
	var err error
	c.Endpoint, err = endpoint.New(endpoint.Options[*client]{Event: c.event, Sent: c.recording.add})
	if err != nil {
		return nil, err
	}
	c.began = c.Now()
	for listener := range c.servers {
		at := netip.AddrPortFrom(process.Loopback, 0)
		if c.servers[listener], err = c.Listen(spoken[listener], at, endpoint.SocketOptions{}); err != nil {
			c.close()
			return nil, err
		}
	}
	if c.joins, err = net.Listen("tcp4", netip.AddrPortFrom(process.Loopback, 0).String()); err != nil {
		c.close()
		return nil, err
	}
	go edge.Serve(c.joins, c.servers[edgeListener].Addr())
	return c, nil
}

// serverAddrs returns where the game servers are asked first.
func (c *clients) serverAddrs() (addrs [listeners]net.Addr) {
	for listener, s := range c.servers {
		addrs[listener] = net.UDPAddrFromAddrPort(s.Addr())
	}
	addrs[edgeListener] = c.joins.Addr()
	return addrs
}

func (c *clients) close() {
	_ = c.Close()
	if c.joins != nil {
		_ = c.joins.Close()
	}
}

// join connects clients to each listener of a subject. First is the number of clients of each that joined before.
func (c *clients) join(t *testbed, to [listeners]netip.AddrPort, first, count int) (err error) {
	t.inNamespace(func() {
		for i := range count * listeners {
			var one *conn
			listener, index := i%listeners, first*listeners+i
			options := endpoint.SocketOptions{Local: t.client(128 + index)}
			if listener == edgeListener { // the join takes part in no turn: a flood may delay it
				c.recording.edges++
				go t.inNamespace(func() { joinEdge(c.ctx, options.Local, to[listener], uint64(index)+1) })
			}
			if one, err = c.Dial(spoken[listener], to[listener], codec.Hello{Identity: uint64(index) + 1}, options); err != nil {
				err = fmt.Errorf("client %d: %w", i, err)
				return
			}
			start := c.every * time.Duration(i) / time.Duration(count*listeners) // in turn, not all at once
			one.Value = &client{listener: listener, next: c.Now().Add(start)}
			c.conns = append(c.conns, one)
		}
	})
	return err
}

func (c *clients) event(from *conn, e *codec.Event) {
	p := from.Value
	switch {
	case p == nil && e.Kind == codec.Received:
		_ = from.Send(c.Now(), e.Message) // a message without room counts as lost
	case p == nil:
	case e.Kind == codec.Connected:
		p.connected = true
	case e.Kind == codec.Disconnected:
		p.gone = true
	case e.Kind == codec.Received:
		c.receive(p, e.Payload)
	}
}

// messageSize is the size of a client's message: a byte that no packet protocol uses, 1 if the message is reliable, the
// time when it was due in 8 bytes, and zeros.
const messageSize = 30

// receive counts a message that has returned.
func (c *clients) receive(p *client, m []byte) {
	if len(m) < messageSize {
		return
	}
	due := c.began.Add(time.Duration(binary.LittleEndian.Uint64(m[2:])))
	if due.Before(c.since) {
		return
	}
	reliable := m[1] & 1
	p.returned[reliable]++
	if reliable == 1 {
		record(c.delays, c.Now().Sub(due))
	}
}

// playing reports whether a client sends messages.
func (c *clients) playing(p *client) bool { return c.sending && p.connected && !p.gone }

// send sends the two messages of a client's turn.
func (c *clients) send(from *conn) {
	p := from.Value
	var m [messageSize]byte
	m[0] = 0x86
	binary.LittleEndian.PutUint64(m[2:], uint64(p.next.Sub(c.began)))
	record(c.late, c.Now().Sub(p.next))
	p.next = p.next.Add(c.every)
	c.skipMissed(p)
	for reliable, mode := range [...]codec.Mode{codec.Unreliable, reliableMode(p.listener)} {
		m[1] = byte(reliable)
		message := codec.Message{Payload: m[:], Mode: mode, ID: 7, HasID: p.listener == riptideListener}
		if from.Send(c.Now(), message) == nil || reliable == 1 {
			p.sent[reliable]++
		}
	}
	c.Touch(from)
}

func reliableMode(listener int) codec.Mode {
	if listener == riptideListener {
		return codec.Reliable
	}
	return codec.ReliableOrdered
}

// run runs the clients for a time, or until done returns true. A nil done never does.
func (c *clients) run(d time.Duration, done func() bool) error {
	for end := time.Now().Add(d); c.Now().Before(end) && (done == nil || !done()) && c.ctx.Err() == nil; {
		if err := c.turn(end); err != nil {
			return err
		}
	}
	return context.Cause(c.ctx)
}

// turn waits until a time for datagrams, and then sends the messages that are due.
func (c *clients) turn(until time.Time) error {
	for _, one := range c.conns {
		if p := one.Value; c.playing(p) && p.next.Before(until) {
			until = p.next
		}
	}
	if err := c.Turn(until); err != nil {
		return err
	}
	for _, one := range c.conns {
		if p := one.Value; c.playing(p) && !p.next.After(c.Now()) {
			c.send(one)
		}
	}
	return nil
}

// meanwhile does something slow on another goroutine while the clients go on.
func (c *clients) meanwhile(do func() error) (result error) {
	finished := make(chan error, 1)
	go func() {
		finished <- do()
		c.Wake()
	}()
	over := false
	err := c.run(time.Minute, func() bool {
		select {
		case result = <-finished:
			over = true
		default:
		}
		return over
	})
	if !over {
		result = <-finished
	}
	return errors.Join(err, result)
}

// reset sets all counts to zero.
func (c *clients) reset() {
	c.since = c.Now()
	c.delays.Reset()
	c.late.Reset()
	for _, one := range c.conns {
		p := one.Value
		p.sent, p.returned = [2]uint64{}, [2]uint64{}
		c.skipMissed(p)
	}
}

// skipMissed skips the turns that a client has missed. It keeps the timetable, in which no two clients send at once.
func (c *clients) skipMissed(p *client) {
	if late := c.Now().Sub(p.next); late > 0 {
		p.next = p.next.Add((late + c.every - 1) / c.every * c.every)
	}
}

// connected counts the clients that are connected.
func (c *clients) connected() (n int) {
	for _, one := range c.conns {
		if p := one.Value; p.connected && !p.gone {
			n++
		}
	}
	return n
}

// missing counts the reliable messages that have not returned.
func (c *clients) missing() (n uint64) {
	for _, one := range c.conns {
		p := one.Value
		n += p.sent[1] - min(p.sent[1], p.returned[1])
	}
	return n
}

// record adds a time to a histogram. A time beyond the histogram's range is left out.
func record(h *hdrhistogram.Histogram, d time.Duration) { _ = h.RecordValue(max(1, d.Microseconds())) }
