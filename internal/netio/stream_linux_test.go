package netio_test

import (
	"fmt"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// TestStreamReusePort checks that two Pollers listen on one address, and that each connection comes to one of them.
func TestStreamReusePort(t *testing.T) {
	const clients = 40
	o := netio.StreamOptions{ReusePort: true}
	a, b := newLoop(t, netio.Options{}), newLoop(t, netio.Options{})
	addr := a.listenStream(o).Addr()
	if _, err := b.ListenStream(addr, o); err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		write(t, netConn(t, addr), framed(fmt.Sprint(i)))
	}
	a.until("all of them", func() bool {
		b.turn(time.Unix(1, 0)) // only polls
		a.Wake()
		return len(a.received)+len(b.received) == clients
	})
	// A Poller without any connection has a chance of 2^-39.
	if len(a.received) == 0 || len(b.received) == 0 {
		t.Errorf("%d and %d connections: not spread", len(a.received), len(b.received))
	}
}
