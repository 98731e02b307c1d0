package netio_test

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"tidegate/internal/netio"
)

// relay forwards the datagrams of clients from a listener to a sink, and keeps the ones that the sink receives.
type relay struct {
	netio.Poller
	front, onward, sink netio.Socket
	forwarded, received []string
}

func (r *relay) Datagram(s netio.Socket, _ netip.AddrPort, datagram []byte) {
	if s == r.sink {
		r.received = append(r.received, string(datagram))
		return
	}
	r.forwarded = append(r.forwarded, string(datagram))
	r.Forward(r.onward, netip.AddrPort{}, datagram)
}

func (r *relay) Failed(netio.Socket, error) {}

// TestForward forwards more datagrams of many clients and sizes than one read takes, and checks that they arrive
// unchanged.
func TestForward(t *testing.T) {
	const clients, each = 10, 30
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		r := &relay{Poller: l.Poller, front: l.listen(loopback), sink: l.listen(loopback)}
		r.onward = l.dial(r.sink.Addr())
		for i := range clients {
			c := l.dial(r.front.Addr())
			for j := range each {
				text := fmt.Sprintf("%d of client %d, %*d", j, i, 1+(i*each+j)%1200, 7)
				r.Send(c, netip.AddrPort{}, []byte(text))
			}
		}
		r.Flush()
		turnUntil(t, r.Poller, r, "forwarded datagrams", func() bool { return len(r.received) == clients*each })
		for i, want := range r.forwarded {
			if r.received[i] != want {
				t.Fatalf("datagram %d was %q and arrived as %q", i, want, r.received[i])
			}
		}
		// Bytes outside of the inbox are forwarded too.
		r.Forward(r.onward, netip.AddrPort{}, []byte("our own"))
		r.Flush()
		turnUntil(t, r.Poller, r, "our own datagram", func() bool { return len(r.received) == clients*each+1 })
		if got := r.received[clients*each]; got != "our own" {
			t.Errorf("arrived as %q", got)
		}
	})
}

// TestSharedSockets checks that sockets to two servers receive only their own datagrams, also if they share a
// descriptor.
func TestSharedSockets(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		servers := []netio.Socket{l.listen(loopback), l.listen(loopback)}
		l.onDatagram = func(s netio.Socket, from netip.AddrPort, datagram []byte) {
			if !s.Peer().IsValid() {
				l.Send(s, from, append(l.Buffer(), datagram...))
			}
		}
		want := make(map[netio.Socket]string)
		for i := range 6 {
			s, err := l.Dial(servers[i%2].Addr(), netio.SocketOptions{Shared: true})
			if err != nil {
				t.Fatal(err)
			}
			want[s] = fmt.Sprint("session ", i)
			l.send(s, netip.AddrPort{}, want[s])
		}
		l.Flush()
		l.untilReceived(2 * len(want))
		for _, got := range l.received {
			if text, ok := want[got.socket]; ok && (text != got.datagram || got.from != got.socket.Peer()) {
				t.Errorf("%q from %v came to %q at %v", got.datagram, got.from, text, got.socket.Peer())
			}
		}
	})
}

func TestSourcesWithoutSupport(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		_, err := l.Dial(l.listen(loopback).Addr(), netio.SocketOptions{Sources: netip.MustParsePrefix("127.64.0.0/10")})
		supported := o.Backend == netio.Epoll
		if supported != (err == nil) || !supported && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("on %s: %v", runtime.GOOS, err)
		}
	})
}
