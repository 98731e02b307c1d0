package netio_test

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/allocs"
)

// echoPair is a client and a server on one Poller. It is the handler of both, and sends back each datagram that the
// server receives.
type echoPair struct {
	netio.Poller
	server, client netio.Socket
	answers        int // that the client has received
}

func newEchoPair(t testing.TB, o netio.Options, addr netip.AddrPort) *echoPair {
	t.Helper()
	l := newLoop(t, o)
	server := l.listen(addr)
	return &echoPair{Poller: l.Poller, server: server, client: l.dial(server.Addr())}
}

func (e *echoPair) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	if s == e.client {
		e.answers++
		return
	}
	e.Send(s, from, append(e.Buffer(), datagram...))
}

func (e *echoPair) Failed(netio.Socket, error) {}

// round echoes n datagrams.
func (e *echoPair) round(t testing.TB, n int, payload []byte) {
	t.Helper()
	want := e.answers + n
	for range n {
		e.Send(e.client, netip.AddrPort{}, append(e.Buffer(), payload...))
	}
	e.Flush()
	turnUntil(t, e.Poller, e, "echoes", func() bool { return e.answers >= want })
}

func TestStreamsDoNotAllocate(t *testing.T) {
	payload := make([]byte, 200)
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		e := &echoPair{Poller: l.Poller}
		e.server = l.listenStream(netio.StreamOptions{})
		e.client = l.dialStream(e.server.Addr(), netio.StreamOptions{})
		for range 50 { // until all buffers have their final size
			e.round(t, 20, payload)
		}
		if got := allocs.PerRun(100, func() { e.round(t, 20, payload) }); got != 0 {
			t.Errorf("%v allocations a round of 20 echoes, want none", got)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	payload := make([]byte, 200)
	for _, c := range []struct {
		addr  string
		delay time.Duration
	}{{"127.0.0.1:0", 0}, {"[::1]:0", 0}, {"127.0.0.1:0", 100 * time.Millisecond}} {
		eachBackend(t, func(t *testing.T, o netio.Options) {
			o.MaxBatchDelay = c.delay
			e := newEchoPair(t, o, netip.MustParseAddrPort(c.addr))
			e.round(t, 20, payload)
			step := func() {
				e.round(t, 20, payload)
				_ = e.Wait(time.Now().Add(time.Microsecond)) // nothing comes, so it parks
				e.Wake()
				_ = e.Wait(time.Time{})
			}
			if got := allocs.PerRun(100, step); got != 0 {
				t.Errorf("%+v: %v allocations a round of 20 echoes, want none", c, got)
			}
		})
	}
}
