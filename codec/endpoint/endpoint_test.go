package endpoint

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/await"
	"tidegate/session"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// echo is a server that returns every message, and clients that count echoes, in one Endpoint.
type echo struct {
	*Endpoint[counts]
	ended []codec.Reason // of the clients' connections
}

// counts are the events of one connection.
type counts struct{ connected, received int }

func newEcho(t *testing.T, limit int) *echo {
	t.Helper()
	e := new(echo)
	var err error
	if e.Endpoint, err = New(Options[counts]{Event: e.event, Limit: limit}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func (e *echo) event(c *Conn[counts], ev *codec.Event) {
	switch ev.Kind {
	case codec.Connected:
		c.Value.connected++
	case codec.Received:
		c.Value.received++
		if c.Listener != nil {
			_ = c.Send(e.Now(), ev.Message)
		}
	case codec.Disconnected:
		if c.Listener == nil {
			e.ended = append(e.ended, ev.Reason)
		}
	}
}

// until turns until a condition holds.
func (e *echo) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(await.Patience); !done(); {
		if err := e.Turn(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("%s: it did not happen in %v", what, await.Patience)
		}
	}
}

func (e *echo) dial(t *testing.T, p codec.Protocol, to netip.AddrPort) *Conn[counts] {
	t.Helper()
	c, err := e.Dial(p, to, codec.Hello{Identity: 1}, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func calm(t *testing.T, name string, use registry.Use) codec.Protocol {
	t.Helper()
	return protocols.Find(name).NewCalm(use)
}

// TestEcho sends a message and its echo over each transport, and then says goodbye. No connection stays.
func TestEcho(t *testing.T) {
	for _, test := range []struct {
		protocol string
		stream   bool
	}{{"raknet", false}, {"riptide-2.2", false}, {"rudp", false}, {"riptide-2.2", true}} {
		e := newEcho(t, 0)
		p := calm(t, test.protocol, registry.Use{Stream: test.stream})
		var c *Conn[counts]
		if test.stream {
			options := StreamOptions{Prefix: protocols.Find(test.protocol).Stream.Prefix}
			l, err := e.ListenStream(p, loopback, options)
			if err != nil {
				t.Fatal(err)
			}
			if c, err = e.DialStream(p, l.Addr(), codec.Hello{Identity: 1}, options); err != nil {
				t.Fatal(err)
			}
		} else {
			l, err := e.Listen(p, loopback, SocketOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c = e.dial(t, p, l.Addr())
		}
		e.until(t, test.protocol+": connect", func() bool { return c.Value.connected == 1 })
		mode := codec.Unreliable
		if err := c.Send(e.Now(), codec.Message{Payload: []byte{0x86, 1}, Mode: mode}); err != nil {
			t.Fatal(err)
		}
		e.Touch(c)
		e.until(t, test.protocol+": echo", func() bool { return c.Value.received == 1 })
		c.Close(e.Now(), codec.Goodbye{Reason: codec.Closed})
		e.Touch(c)
		e.until(t, test.protocol+": goodbye", func() bool { return e.Len() == 0 })
		if len(e.ended) != 1 {
			t.Errorf("%s: the client's connection ended %d times", test.protocol, len(e.ended))
		}
		e.Touch(c) // does nothing
		e.Flush()
	}
}

// TestDialAfterAPause dials when the last Turn is longer ago than a client may need to connect.
func TestDialAfterAPause(t *testing.T) {
	for _, name := range []string{"raknet", "riptide-2.2", "rudp", "enet"} {
		e := newEcho(t, 0)
		e.now = e.now.Add(-time.Minute)
		e.table = session.NewTable[*Conn[counts]](session.Limits{Sessions: 2, HalfOpen: 2}, e.now)
		p := calm(t, name, registry.Use{})
		l, err := e.Listen(p, loopback, SocketOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := e.dial(t, p, l.Addr())
		e.until(t, name+": connect", func() bool { return c.Value.connected == 1 || len(e.ended) > 0 })
		if len(e.ended) > 0 {
			t.Errorf("%s: the client ended: %v", name, e.ended)
		}
	}
}

// TestLimit refuses connections beyond the limit and accepts them when another has ended.
func TestLimit(t *testing.T) {
	server, clients := newEcho(t, 2), newEcho(t, 0)
	p := calm(t, "riptide-2.2", registry.Use{})
	l, err := server.Listen(p, loopback, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []*Conn[counts]
	for range 3 {
		all = append(all, clients.dial(t, p, l.Addr()))
	}
	connected := func() (n int) {
		for _, c := range all {
			n += c.Value.connected
		}
		return n
	}
	both := func(done func() bool) func() bool {
		return func() bool {
			if err := server.Turn(time.Now()); err != nil {
				t.Fatal(err)
			}
			return done()
		}
	}
	clients.until(t, "connect two", both(func() bool { return connected() == 2 }))
	if server.Len() != 2 {
		t.Fatalf("%d connections, want 2", server.Len())
	}
	for _, c := range all {
		if c.Value.connected == 1 {
			c.Close(clients.Now(), codec.Goodbye{Reason: codec.Closed})
			clients.Touch(c)
			break
		}
	}
	clients.until(t, "connect the third", both(func() bool { return connected() == 3 }))
}

// TestStreamEnds gives Disconnected once when the server's side of a stream is gone.
func TestStreamEnds(t *testing.T) {
	server, clients := newEcho(t, 0), newEcho(t, 0)
	p := calm(t, "riptide-2.2", registry.Use{Stream: true})
	options := StreamOptions{Prefix: protocols.Find("riptide-2.2").Stream.Prefix}
	l, err := server.ListenStream(p, loopback, options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clients.DialStream(p, l.Addr(), codec.Hello{Identity: 1}, options)
	if err != nil {
		t.Fatal(err)
	}
	clients.until(t, "connect", func() bool { return server.Turn(time.Now()) == nil && c.Value.connected == 1 })
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	clients.until(t, "end", func() bool { return clients.Len() == 0 })
	if len(clients.ended) != 1 || clients.ended[0] != codec.TransportError {
		t.Errorf("the connection ended with %v, want one transport error", clients.ended)
	}
}

// TestSent gives each datagram of a dialed connection to Options.Sent, and none of an accepted one.
func TestSent(t *testing.T) {
	sent, accepted := 0, 0
	e, err := New(Options[counts]{
		Event: func(*Conn[counts], *codec.Event) {},
		Sent: func(c *Conn[counts], datagram []byte) {
			if sent++; c.Listener != nil || len(datagram) == 0 {
				accepted++
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	p := calm(t, "riptide-2.2", registry.Use{})
	l, err := e.Listen(p, loopback, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Dial(p, l.Addr(), codec.Hello{Identity: 1}, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	(&echo{Endpoint: e}).until(t, "two datagrams", func() bool { return sent >= 2 })
	if accepted > 0 || uint64(sent) != c.Stats().Sent {
		t.Errorf("%d datagrams given, %d sent, %d of them accepted ones", sent, c.Stats().Sent, accepted)
	}
}
