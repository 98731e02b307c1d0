package door

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/scarce"
)

// TestOldestOfTheLargestNetworkMakesRoom fills a door of three places. Kept connections stay, and a network with one
// connection keeps it against a network with many.
func TestOldestOfTheLargestNetworkMakesRoom(t *testing.T) {
	raw, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Bound(raw, 3)
	defer l.Close()
	from := func(host string) (c *Conn, client net.Conn) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
		client, err := d.Dial("tcp", net.JoinHostPort(host, portOf(raw)))
		if err != nil {
			t.Skip(err) // not all systems have all of 127.0.0.0/8
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return accepted.(*Conn), client
	}
	alone, _ := from("127.0.1.1")
	first, _ := from("127.0.2.1")
	_, second := from("127.0.2.2")
	first.Keep()
	_, third := from("127.0.2.3")
	if !isOpen(alone) || !isOpen(first) || isOpen(second) {
		t.Error("want the second connection closed, and no other")
	}
	first.Yield()
	_, fourth := from("127.0.2.4")
	if isOpen(first) || !isOpen(third) || !isOpen(fourth) {
		t.Error("want the first connection closed, and no other")
	}
	for c := range l.conns {
		c.Keep()
	}
	if c := l.admit(third); c != nil || len(l.conns) != 3 {
		t.Errorf("%d connections are held, and a new one got in: %v", len(l.conns), c != nil)
	}
}

// TestRoomOfTwo has two listeners share their room: connections to one take no more than it, and others get in.
func TestRoomOfTwo(t *testing.T) {
	room := NewRoom(3)
	var doors []*Listener
	for range 2 {
		raw, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		doors = append(doors, room.Bound(raw))
		defer doors[len(doors)-1].Close()
	}
	var last net.Conn
	for i := range 8 {
		client, err := net.Dial("tcp", doors[i%2].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := doors[i%2].Accept(); err != nil {
			t.Fatal(err)
		}
		last = client
	}
	if len(room.conns) != 3 || !isOpen(last) {
		t.Errorf("%d connections are held; the last one is open: %v", len(room.conns), isOpen(last))
	}
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// isOpen reports whether nothing has closed a connection.
func isOpen(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// TestFront passes bytes on to a server, and ends with its context.
func TestFront(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Bound(raw, 2)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		dial := func(ctx context.Context) (net.Conn, error) { return net.Dial("tcp", server.Addr().String()) }
		Front{Dial: dial, Proof: time.Millisecond}.Serve(ctx, l)
		close(ended)
	}()
	echo := func() net.Conn {
		c, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte("tide"))
		b := make([]byte, 4)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "tide" {
			t.Fatalf("echo %q, %v", b, err)
		}
		return c
	}
	one := echo()
	echo()
	await.Until(t, "both are kept", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		kept := 0
		for c := range l.conns {
			if c.kept {
				kept++
			}
		}
		return kept == 2
	})
	_ = one.Close()
	await.Until(t, "there is room", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.conns) == 1
	})
	cancel()
	<-ended
}

// TestListenersWithoutDescriptors ends Fronts whose listeners have no descriptors for connections.
func TestListenersWithoutDescriptors(t *testing.T) {
	scarce.Listeners(t, func(ctx context.Context, l net.Listener) error {
		Front{}.Serve(ctx, Bound(l, 1))
		return nil
	})
}
