package netio_test

import (
	"net"
	"net/netip"
	"testing"

	"tidegate/internal/netio"
)

// readCounter counts datagrams, and the ones without an AfterRead since the one before.
type readCounter struct {
	fresh            bool
	came, unnotified int
}

func (l *readCounter) AfterRead() { l.fresh = true }

func (l *readCounter) Datagram(netio.Socket, netip.AddrPort, []byte) {
	if l.came++; !l.fresh {
		l.unnotified++
	}
	l.fresh = false
}

func (l *readCounter) Failed(netio.Socket, error) {}

// TestAfterRead checks that AfterRead is called after each read of a socket that new clients use.
func TestAfterRead(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		p, err := netio.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		datagrams, err := p.Listen(loopback, netio.SocketOptions{})
		if err != nil {
			t.Fatal(err)
		}
		streams, err := p.ListenStream(loopback, netio.StreamOptions{MaxConns: 1, HelloTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(datagrams.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = udp.Close() }()
		tcp := netConn(t, streams.Addr())
		var h readCounter
		for i, send := range []func() (int, error){
			func() (int, error) { return udp.Write([]byte("hello")) },
			func() (int, error) { return tcp.Write(framed("hello")) },
			func() (int, error) { return udp.Write([]byte("again")) },
			func() (int, error) { return tcp.Write(framed("again")) },
		} {
			if _, err := send(); err != nil {
				t.Fatal(err)
			}
			turnUntil(t, p, &h, "a datagram", func() bool { return h.came > i })
		}
		if h.unnotified > 0 {
			t.Errorf("%d of %d datagrams came without AfterRead", h.unnotified, h.came)
		}
	})
}

// TestAfterReadBetweenServers checks that a Receive of many server sockets calls AfterRead after every few of them.
func TestAfterReadBetweenServers(t *testing.T) {
	const servers, most = 100, 16
	eachBackend(t, func(t *testing.T, o netio.Options) {
		p, err := netio.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(loopback))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Close() }()
		var h apart
		for range servers {
			s, err := p.Dial(server.LocalAddr().(*net.UDPAddr).AddrPort(), netio.SocketOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p.Send(s, s.Peer(), []byte("hello"))
		}
		p.Flush()
		for b := make([]byte, 8); h.asked < servers; h.asked++ {
			_, from, err := server.ReadFromUDPAddrPort(b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := server.WriteToUDPAddrPort(b[:5], from); err != nil {
				t.Fatal(err)
			}
		}
		turnUntil(t, p, &h, "all answers", func() bool { return h.came == servers })
		if h.longest > most {
			t.Errorf("%d datagrams came without an AfterRead, want at most %d", h.longest, most)
		}
	})
}

// apart counts the datagrams between two calls of AfterRead.
type apart struct {
	asked, came, since, longest int
}

func (a *apart) AfterRead() { a.since = 0 }

func (a *apart) Datagram(netio.Socket, netip.AddrPort, []byte) {
	a.came++
	a.since++
	a.longest = max(a.longest, a.since)
}

func (a *apart) Failed(netio.Socket, error) {}

// foreseen counts the datagrams that were announced and have not come, by Socket.
type foreseen struct {
	ahead       map[netio.Socket]int
	came, blind int
	most        int // announced at once
}

func (f *foreseen) Foresee(s netio.Socket, _ netip.AddrPort) {
	f.ahead[s]++
	all := 0
	for _, n := range f.ahead {
		all += n
	}
	f.most = max(f.most, all)
}

func (f *foreseen) Datagram(s netio.Socket, _ netip.AddrPort, _ []byte) {
	if f.came++; f.ahead[s] == 0 {
		f.blind++
		return
	}
	f.ahead[s]--
}

func (f *foreseen) Failed(netio.Socket, error) {}

// TestForesee checks that the datagrams of a listener, and of many servers, are announced a few at a time.
func TestForesee(t *testing.T) {
	const clients, most = 40, 16
	p, err := netio.New(netio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if netio.Auto.Used() != netio.Epoll {
		t.Skip("the portable backend announces nothing")
	}
	listener, err := p.Listen(loopback, netio.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range clients {
		s, err := p.Dial(listener.Addr(), netio.SocketOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Send(s, s.Peer(), []byte("hello"))
	}
	p.Flush()
	f := &foreseen{ahead: make(map[netio.Socket]int)}
	turnUntil(t, p, &echoing{f, p}, "all echoes", func() bool { return f.came == 2*clients })
	if f.blind > 0 || f.most > most {
		t.Errorf("%d of %d came without notice, at most %d were announced at once", f.blind, f.came, f.most)
	}
}

// echoing answers what a listener gets.
type echoing struct {
	*foreseen
	p netio.Poller
}

func (e *echoing) Datagram(s netio.Socket, from netip.AddrPort, b []byte) {
	if e.foreseen.Datagram(s, from, b); !s.Peer().IsValid() {
		e.p.Send(s, from, b)
	}
}
