package raknet

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

var (
	linkStart  = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	linkServer = netip.MustParseAddrPort("198.51.100.1:19132")
	linkClient = netip.MustParseAddrPort("192.0.2.1:40000")
)

// link joins a client and a server Conn in virtual time. Datagrams arrive at once, unless drop is set.
type link struct {
	t      testing.TB
	p      *Protocol
	now    time.Time
	client *Conn
	server *Conn // nil until accepted

	toClient, toServer []codec.Event // events of each side's application, with copied payloads
	drop               func(toServer bool, datagram []byte) bool
	clientAddr         netip.AddrPort
	defers             bool // the server's client waits for Grant
	carried            int  // datagrams
	delay              time.Duration
	underWay           []delayed // with a delay, in order of arrival
}

type delayed struct {
	at       time.Time
	toServer bool
	datagram []byte
}

// newLink returns a link whose client has dialed, but not sent yet.
func newLink(t testing.TB, o Options) *link {
	return newLinkOf(t, New(o))
}

func newLinkOf(t testing.TB, p *Protocol) *link {
	l := &link{t: t, p: p, now: linkStart, clientAddr: linkClient}
	l.client = l.p.Dial(l.now, linkServer, codec.Hello{Data: []byte("secret"), Identity: 77}).(*Conn)
	return l
}

// newConnected returns a link whose handshake is over.
func newConnected(t testing.TB, o Options) *link {
	return connect(t, newLink(t, o))
}

func connect(t testing.TB, l *link) *link {
	l.exchange()
	l.server.Admit(l.now, 3)
	l.exchange()
	l.wait(50 * time.Millisecond)
	if !has(l.toClient, codec.Connected) || !has(l.toServer, codec.Connected) {
		t.Fatalf("not connected: client saw %v, server %v", codectest.Kinds(l.toClient), codectest.Kinds(l.toServer))
	}
	l.toClient, l.toServer = nil, nil
	return l
}

// connectOver ends the handshake over a path with a delay each way.
func connectOver(l *link, delay time.Duration) *link {
	l.delay = delay
	l.wait(8 * delay)
	l.server.Admit(l.now, 3)
	l.wait(8*delay + 50*ms)
	l.toClient, l.toServer = nil, nil
	return l
}

// exchange transfers datagrams until both sides are silent.
func (l *link) exchange() {
	for l.carry(l.client, true) || l.carry(l.server, false) {
		if l.carried++; l.carried > 1_000_000 {
			l.t.Fatal("the sides never fall silent")
		}
	}
}

func (l *link) carry(from *Conn, toServer bool) bool {
	if from == nil {
		return false
	}
	datagram, ok := from.Transmit(l.now, nil)
	if !ok || l.drop != nil && l.drop(toServer, datagram) {
		return ok
	}
	if l.delay > 0 {
		l.underWay = append(l.underWay, delayed{l.now.Add(l.delay), toServer, datagram})
		return true
	}
	l.deliver(toServer, datagram)
	return true
}

func (l *link) deliver(toServer bool, datagram []byte) {
	switch {
	case !toServer:
		_ = l.client.Receive(l.now, datagram)
	case l.server != nil:
		_ = l.server.Receive(l.now, datagram)
	default:
		l.accept(datagram)
	}
	l.poll()
}

func (l *link) accept(datagram []byte) {
	conn, reply, _ := l.p.Accept(l.now, l.clientAddr, datagram, nil)
	if conn != nil {
		l.server = conn.(*Conn)
		if l.defers {
			l.server.Defer()
		}
	}
	if len(reply) > 0 && (l.drop == nil || !l.drop(false, reply)) {
		_ = l.client.Receive(l.now, reply)
	}
}

func (l *link) poll() {
	l.toClient = pollInto(l.client, l.toClient)
	if l.server != nil {
		l.toServer = pollInto(l.server, l.toServer)
	}
}

func pollInto(c *Conn, seen []codec.Event) []codec.Event {
	for e, ok := c.Poll(); ok; e, ok = c.Poll() {
		e.Payload = bytes.Clone(e.Payload)
		seen = append(seen, e)
	}
	return seen
}

// wait advances the time, and wakes both sides at their timeouts.
func (l *link) wait(d time.Duration) {
	until := l.now.Add(d)
	for l.exchange(); ; l.exchange() {
		next := until.Add(1)
		for _, c := range []*Conn{l.client, l.server} {
			if c != nil && !c.NextTimeout().IsZero() && c.NextTimeout().Before(next) {
				next = c.NextTimeout()
			}
		}
		if len(l.underWay) > 0 && l.underWay[0].at.Before(next) {
			next = l.underWay[0].at
		}
		if next.After(until) {
			l.now = until
			return
		}
		l.now = later(next, l.now)
		for len(l.underWay) > 0 && !l.underWay[0].at.After(l.now) {
			d := l.underWay[0]
			l.underWay = l.underWay[1:]
			l.deliver(d.toServer, d.datagram)
		}
		for _, c := range []*Conn{l.client, l.server} {
			if c != nil {
				c.Advance(l.now)
			}
		}
		l.poll()
	}
}

// send sends a message of the given size from a side.
func (l *link) send(from *Conn, mode codec.Mode, size int, receipt codec.Receipt) {
	l.t.Helper()
	m := codec.Message{Payload: gamePayload(size), Mode: mode, Receipt: receipt}
	if err := from.Send(l.now, m); err != nil {
		l.t.Fatalf("Send: %v", err)
	}
}

func gamePayload(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7) | 0x80
	}
	return b
}

func has(events []codec.Event, kind codec.EventKind) bool { return count(events, kind) > 0 }

func count(events []codec.Event, kind codec.EventKind) (n int) {
	for _, e := range events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// ending returns the reason of Disconnected, which must be the last event.
func ending(t testing.TB, events []codec.Event) codec.Reason {
	t.Helper()
	if len(events) == 0 || events[len(events)-1].Kind != codec.Disconnected {
		t.Fatalf("events %v do not end with disconnected", codectest.Kinds(events))
	}
	return events[len(events)-1].Reason
}
