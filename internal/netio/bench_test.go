package netio_test

import (
	"fmt"
	"net/netip"
	"testing"

	"tidegate/internal/netio"
)

// BenchmarkEcho echoes a client's datagrams in batches of several sizes. Both ends share the Poller, so an operation
// is two datagrams sent and two received. ns/datagram is the time to receive one and send one. Use -cpu 1 to compare
// the backends: the portable one reads on all cores.
func BenchmarkEcho(b *testing.B) {
	for _, backend := range backends() {
		for _, window := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/window=%d", backend.name, window), func(b *testing.B) {
				e := newEchoPair(b, backend.o, loopback)
				payload := make([]byte, 200)
				b.ReportAllocs()
				b.ResetTimer()
				for left := b.N; left > 0; left -= window {
					e.round(b, min(left, window), payload)
				}
				reportPerDatagram(b, 2)
			})
		}
	}
}

// BenchmarkForward does the work of a proxy for many sessions. A client's datagram goes to the upstream by the
// session's own socket or from its own address, and the answer returns. All four ends share the Poller.
func BenchmarkForward(b *testing.B) {
	for _, backend := range backends() {
		b.Run(backend.name, func(b *testing.B) { benchmarkForward(b, backend.o, netio.SocketOptions{}) })
		if backend.o.Backend == netio.Epoll {
			own := netio.SocketOptions{Sources: netip.MustParsePrefix("127.64.0.0/10")}
			b.Run(backend.name+", own addresses", func(b *testing.B) { benchmarkForward(b, backend.o, own) })
		}
	}
}

func benchmarkForward(b *testing.B, o netio.Options, dial netio.SocketOptions) {
	const clients = 200
	f := newForwarder(b, o, dial, clients)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= clients {
		f.round(b, min(left, clients))
	}
	reportPerDatagram(b, 4)
}

// reportPerDatagram reports the time for each of the datagrams in an operation.
func reportPerDatagram(b *testing.B, datagrams int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*datagrams), "ns/datagram")
}

// forwarder is clients, a proxy and an upstream on one Poller. The proxy finds a session by the client's address, and
// for answers by the owner of the session's socket.
type forwarder struct {
	netio.Poller
	front, upstream netio.Socket
	clients         []netio.Socket
	sessions        map[netip.AddrPort]netio.Socket
	answers         int
}

func newForwarder(b *testing.B, o netio.Options, dial netio.SocketOptions, clients int) *forwarder {
	l := newLoop(b, o)
	f := &forwarder{
		Poller: l.Poller, front: l.listen(loopback), upstream: l.listen(loopback),
		sessions: make(map[netip.AddrPort]netio.Socket),
	}
	for i := range clients {
		dial.SourceKey = uint64(i)
		session, err := l.Dial(f.upstream.Addr(), dial)
		if err != nil {
			b.Fatal(err)
		}
		client := l.dial(f.front.Addr())
		addr := client.Addr()
		session.SetOwner(&addr)
		f.sessions[addr] = session
		f.clients = append(f.clients, client)
	}
	return f
}

func (f *forwarder) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	if client, ok := s.Owner().(*netip.AddrPort); ok {
		f.Forward(f.front, *client, datagram)
		return
	}
	switch s {
	case f.front:
		f.Forward(f.sessions[from], netip.AddrPort{}, datagram)
	case f.upstream:
		f.Send(f.upstream, from, append(f.Buffer(), datagram...))
	default:
		f.answers++
	}
}

func (f *forwarder) Failed(netio.Socket, error) {}

func (f *forwarder) round(b *testing.B, n int) {
	want := f.answers + n
	for _, c := range f.clients[:n] {
		f.Send(c, netip.AddrPort{}, f.Buffer()[:200])
	}
	f.Flush()
	turnUntil(b, f.Poller, f, "answers", func() bool { return f.answers >= want })
}
