package endpoint

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/await"
)

// serve runs an Endpoint with a listener until the test's end, and returns the listener's address.
func serve[T any](t *testing.T, p codec.Protocol, o Options[T]) (*Endpoint[T], netip.AddrPort) {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Listen(p, loopback, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = e.Close()
	})
	return e, l.Addr()
}

// TestConnect waits for a connection, for a refusal, and for no answer.
func TestConnect(t *testing.T) {
	for _, name := range []string{"raknet", "riptide-2.2", "rudp", "enet"} {
		p := calm(t, name, registry.Use{})
		_, at := serve(t, p, Options[int]{Event: func(*Conn[int], *codec.Event) {}})
		e := newEcho(t, 0)
		if err := e.Connect(t.Context(), e.dial(t, p, at)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, full := serve(t, riptide.New(riptide.Options{}), Options[int]{
		Event: func(*Conn[int], *codec.Event) {},
		Admit: func(*Conn[int], *codec.Event) codec.Reason { return codec.ServerFull },
	})
	e := newEcho(t, 0)
	err := e.Connect(t.Context(), e.dial(t, riptide.New(riptide.Options{}), full))
	var refused *ConnectError
	if !errors.As(err, &refused) || refused.Reason != codec.ServerFull || refused.Peer != full {
		t.Errorf("Connect of a full server returns %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent := netip.MustParseAddrPort("127.0.0.1:9")
	if err := e.Connect(ctx, e.dial(t, riptide.New(riptide.Options{}), silent)); !errors.Is(err, context.Canceled) {
		t.Errorf("Connect without time returns %v", err)
	}
}

// TestRunSaysGoodbye ends a server. Its client is told at once that it has stopped.
func TestRunSaysGoodbye(t *testing.T) {
	p := calm(t, "enet", registry.Use{})
	connected := make(chan struct{})
	server, err := New(Options[int]{Event: func(_ *Conn[int], e *codec.Event) {
		if e.Kind == codec.Connected {
			close(connected)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	l, err := server.Listen(p, loopback, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	e := newEcho(t, 0)
	if err := e.Connect(t.Context(), e.dial(t, p, l.Addr())); err != nil {
		t.Fatal(err)
	}
	<-connected
	stop()
	e.until(t, "the goodbye", func() bool { return len(e.ended) == 1 })
	if e.ended[0] == codec.TimedOut {
		t.Error("the client timed out")
	}
	if err := <-ended; err != nil || server.Len() != 0 {
		t.Errorf("Run returns %v, with %d connections", err, server.Len())
	}
}

// TestWritable fills the queue of a peer that is away. Writable is called once when the peer reads again, and the
// messages arrive that Send took.
func TestWritable(t *testing.T) {
	p := raknet.New(raknet.Options{MaxQueued: 64 << 10})
	arrived := 0
	server, err := New(Options[int]{Event: func(_ *Conn[int], e *codec.Event) {
		if e.Kind == codec.Received {
			arrived++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	l, err := server.Listen(p, loopback, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writable := 0
	client, err := New(Options[int]{
		Event: func(*Conn[int], *codec.Event) {}, Writable: func(*Conn[int]) { writable++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c, err := client.Dial(p, l.Addr(), codec.Hello{}, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	both := func(what string, done func() bool) {
		for end := time.Now().Add(await.Patience); !done(); {
			if time.Now().After(end) {
				t.Fatalf("not %s", what)
			}
			soon := time.Now().Add(5 * time.Millisecond)
			if err := errors.Join(server.Turn(time.Now()), client.Turn(soon)); err != nil {
				t.Fatal(err)
			}
		}
	}
	both("connected", func() bool { return c.connected })
	sent := 0
	m := codec.Message{Payload: bytes.Repeat([]byte{0x86}, 500), Mode: codec.ReliableOrdered}
	for err = client.Send(c, m); err == nil; err = client.Send(c, m) {
		sent++
	}
	if !errors.Is(err, codec.ErrFull) || writable != 0 {
		t.Fatalf("Send returns %v, Writable was called %d times", err, writable)
	}
	both("all there", func() bool { return arrived == sent })
	both("writable", func() bool { return writable == 1 })
	if err := client.Send(c, m); err != nil {
		t.Error(err)
	}
	both("all there", func() bool { return arrived == sent+1 })
	if writable != 1 {
		t.Errorf("Writable was called %d times", writable)
	}
}

// TestDo sends from another goroutine.
func TestDo(t *testing.T) {
	p := calm(t, "enet", registry.Use{})
	var joined *Conn[int]
	connected := make(chan struct{})
	server, at := serve(t, p, Options[int]{Event: func(c *Conn[int], e *codec.Event) {
		if e.Kind == codec.Connected {
			joined = c
			close(connected)
		}
	}})
	e := newEcho(t, 0)
	c := e.dial(t, p, at)
	if err := e.Connect(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	<-connected // without another turn of the client
	server.Do(func() {
		if err := server.Send(joined, codec.Message{Payload: []byte("news"), Mode: codec.ReliableOrdered}); err != nil {
			t.Error(err)
		}
	})
	e.until(t, "the message", func() bool { return c.Value.received == 1 })
}

// TestPing asks for a server's text. A protocol without pings, a closed port and a silent server are errors.
func TestPing(t *testing.T) {
	p := raknet.New(raknet.Options{Pong: []byte("hello")})
	_, at := serve(t, p, Options[int]{Event: func(*Conn[int], *codec.Event) {}})
	text, rtt, err := Ping(t.Context(), p, at)
	if string(text) != "hello" || rtt <= 0 || err != nil {
		t.Errorf("Ping returns %q, %v, %v", text, rtt, err)
	}
	if _, _, err := Ping(t.Context(), p, netip.MustParseAddrPort("127.0.0.1:9")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Ping of a closed port: %v", err)
	}
	silent, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, _, err = Ping(ctx, p, silent.LocalAddr().(*net.UDPAddr).AddrPort())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ping of a silent server: %v", err)
	}
	if _, _, err := Ping(t.Context(), riptide.New(riptide.Options{}), at); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Ping in Riptide: %v", err)
	}
}
