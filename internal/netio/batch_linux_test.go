package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counter is a Handler that counts.
type counter struct{ datagrams, failures int }

func (c *counter) Datagram(Socket, netip.AddrPort, []byte) { c.datagrams++ }
func (c *counter) Failed(Socket, error)                    { c.failures++ }

// newEpollPoller returns a Poller that sends each datagram in a message of its own.
func newEpollPoller(t testing.TB) *epollPoller {
	t.Helper()
	p := newPollerWithRuns(t)
	p.out.flight.largest = 0
	return p
}

func newPollerWithRuns(t testing.TB) *epollPoller {
	t.Helper()
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p.(*epollPoller)
}

func listen(t testing.TB, p Poller, o SocketOptions) Socket {
	t.Helper()
	s, err := p.Listen(netip.MustParseAddrPort("127.0.0.1:0"), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func dial(t testing.TB, p Poller, to netip.AddrPort) Socket {
	t.Helper()
	s, err := p.Dial(to, SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func turn(t testing.TB, p Poller, h Handler) {
	t.Helper()
	if err := p.Wait(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	p.Receive(h)
}

// TestBatches checks that the datagrams of a socket leave and arrive in full batches, even if they are mixed with
// others.
func TestBatches(t *testing.T) {
	p := newEpollPoller(t)
	server := listen(t, p, SocketOptions{})
	clients := []Socket{dial(t, p, server.Addr()), dial(t, p, server.Addr())}
	for range outSlots / 2 {
		for _, c := range clients {
			p.Send(c, netip.AddrPort{}, append(p.Buffer(), "x"...))
		}
	}
	// The last of them filled the queue, which caused a flush.
	if got, want := p.Stats().Out, (Traffic{Datagrams: outSlots, Bytes: outSlots, Calls: 2}); got != want {
		t.Errorf("out %+v, want %+v", got, want)
	}
	var c counter
	turn(t, p, &c)
	want := Traffic{Datagrams: outSlots, Bytes: outSlots, Calls: outSlots/listenBatch + 1}
	if got := p.Stats().In; c.datagrams != outSlots || got.Datagrams != want.Datagrams || got.Calls > want.Calls {
		t.Errorf("in %+v, want %+v", got, want)
	}
}

// TestRoundsAreBounded checks that a turn takes a bounded number of datagrams of a socket. The next Wait returns at
// once for the rest.
func TestRoundsAreBounded(t *testing.T) {
	const sent = turnDatagrams + 10
	p := newEpollPoller(t)
	server := listen(t, p, SocketOptions{})
	client := dial(t, p, server.Addr())
	for range sent {
		p.Send(client, netip.AddrPort{}, []byte("x"))
	}
	for range 3 * dialBatch {
		p.Send(server, client.Addr(), []byte("y"))
	}
	p.Flush()
	var c counter
	if err := p.Wait(time.Time{}); err != nil { // a second Wait adds nothing to the first
		t.Fatal(err)
	}
	turn(t, p, &c)
	if want := turnDatagrams + 1; c.datagrams != want {
		t.Fatalf("%d datagrams in a turn, want %d", c.datagrams, want)
	}
	turn(t, p, &c)
	if want := sent + 1 + dialBatch; c.datagrams != want {
		t.Fatalf("%d datagrams in two turns, want %d", c.datagrams, want)
	}
}

// bySocket is a Handler that counts the datagrams of shared sockets and of others.
type bySocket struct{ shared, listened int }

func (c *bySocket) Datagram(s Socket, _ netip.AddrPort, _ []byte) {
	if _, ok := s.(*virtualSocket); ok {
		c.shared++
	} else {
		c.listened++
	}
}

func (c *bySocket) Failed(Socket, error) {}

// TestSharedSocketKeepsUp checks that a busy loop reads as many answers of servers, which come at one shared socket, as
// datagrams of the clients of several listeners.
func TestSharedSocketKeepsUp(t *testing.T) {
	const listeners, turns = 4, 6
	large := SocketOptions{ReceiveBuffer: 8 << 20}
	p, peers := newEpollPoller(t), newEpollPoller(t)
	server := listen(t, peers, SocketOptions{})
	upstream, err := p.Dial(server.Addr(), SocketOptions{
		Sources: netip.MustParsePrefix("127.9.0.0/24"), ReceiveBuffer: large.ReceiveBuffer,
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(from Socket, to netip.AddrPort, n int) {
		for range n {
			peers.Send(from, to, []byte("x"))
		}
		peers.Flush()
	}
	send(server, upstream.Addr(), listeners*turns*turnDatagrams)
	for range listeners {
		send(dial(t, peers, listen(t, p, large).Addr()), netip.AddrPort{}, turns*turnDatagrams)
	}
	var c bySocket
	for i := range turns {
		turn(t, p, &c)
		if behind := c.listened - c.shared; i > 0 && behind > listeners*turnDatagrams {
			t.Fatalf("after %d turns, %d answers and %d datagrams of clients are read", i+1, c.shared, c.listened)
		}
	}
	if want := listeners * turns * turnDatagrams; c.listened != want {
		t.Errorf("%d datagrams of clients are read, want %d", c.listened, want)
	}
}

// TestFlushOfALongQueue checks that a queue beyond the size of one system call leaves in several.
func TestFlushOfALongQueue(t *testing.T) {
	p := newEpollPoller(t)
	client := dial(t, p, listen(t, p, SocketOptions{}).Addr())
	for range sendBatch + 1 {
		p.Send(client, netip.AddrPort{}, []byte("x"))
	}
	p.Flush()
	if got, want := p.Stats().Out, (Traffic{Datagrams: sendBatch + 1, Bytes: sendBatch + 1, Calls: 2}); got != want {
		t.Errorf("out %+v, want %+v", got, want)
	}
}

// pair returns a socket with a small send buffer, and the descriptor of its peer. They belong to the Unix family,
// because UDP over loopback drops instead of blocking.
func pair(t *testing.T, p *epollPoller) (s *epollSocket, peer int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[1]) })
	if err := setOption(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1); err != nil {
		t.Fatal(err)
	}
	s = &epollSocket{poller: p, fd: fds[0], endpoint: endpoint{peer: netip.MustParseAddrPort("192.0.2.1:1")}}
	if err := p.watch(s, s.fd, unix.EPOLLIN); err != nil {
		t.Fatal(err)
	}
	return s, fds[1]
}

// TestWouldBlock checks that the rest of a queue is dropped and counted when the kernel's buffer is full. Later
// datagrams are sent again.
func TestWouldBlock(t *testing.T) {
	p := newEpollPoller(t)
	s, peer := pair(t, p)
	for range outSlots {
		p.Send(s, netip.AddrPort{}, []byte("x"))
	}
	st := p.Stats()
	if st.WouldBlock == 0 || st.Out.Datagrams == 0 || st.WouldBlock+st.Out.Datagrams != outSlots {
		t.Fatalf("%d sent, %d would have blocked, want %d in all", st.Out.Datagrams, st.WouldBlock, outSlots)
	}
	if _, err := unix.Read(peer, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.Send(s, netip.AddrPort{}, []byte("y"))
	p.Flush()
	if got := p.Stats(); got.Out.Datagrams != st.Out.Datagrams+1 || got.WouldBlock != st.WouldBlock {
		t.Errorf("out %+v after the peer had read, want one more than %+v", got.Out, st.Out)
	}
}

// TestErrorAmidABatch checks that a datagram with an error does not stop the ones after it.
func TestErrorAmidABatch(t *testing.T) {
	p := newEpollPoller(t)
	server, taker := listen(t, p, SocketOptions{}), listen(t, p, SocketOptions{})
	p.Send(server, taker.Addr(), []byte("1"))
	p.Send(server, netip.MustParseAddrPort("127.0.0.1:0"), []byte("2")) // EINVAL
	p.Send(server, taker.Addr(), []byte("3"))
	p.Flush()
	if got := p.Stats(); got.Errors != 1 || got.Out.Datagrams != 2 {
		t.Errorf("stats %+v, want 2 sent and 1 error", got)
	}
}

// TestDontFragment checks that datagrams forbid fragmentation only with the option, in both families.
func TestDontFragment(t *testing.T) {
	p := newEpollPoller(t)
	for _, network := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, dontFragment := range []bool{false, true} {
			s, err := p.Listen(netip.MustParseAddrPort(network), SocketOptions{DontFragment: dontFragment})
			if err != nil {
				t.Fatal(err)
			}
			want := unix.IP_PMTUDISC_DONT
			if dontFragment {
				want = unix.IP_PMTUDISC_PROBE
			}
			got, err := unix.GetsockoptInt(s.(*epollSocket).fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER)
			if err != nil || got != want {
				t.Errorf("%s: IP_MTU_DISCOVER = %d, %v; want %d", network, got, err, want)
			}
			if err := s.(FragmentControl).AllowFragments(); err != nil {
				t.Fatal(err)
			}
			if got, _ := unix.GetsockoptInt(s.(*epollSocket).fd, unix.IPPROTO_IP,
				unix.IP_MTU_DISCOVER); got != unix.IP_PMTUDISC_DONT {
				t.Errorf("%s: IP_MTU_DISCOVER = %d after AllowFragments, want %d", network, got, unix.IP_PMTUDISC_DONT)
			}
		}
	}
}

// TestDialedSocketsAreReadByNeed checks that one message is asked of a dialed socket, but several if it had more
// before.
func TestDialedSocketsAreReadByNeed(t *testing.T) {
	p := newEpollPoller(t)
	server := listen(t, p, SocketOptions{})
	client := dial(t, p, server.Addr())
	say := func(n int) {
		for range n {
			p.Send(server, client.Addr(), []byte("x"))
		}
		p.Flush()
	}
	var c counter
	for turns, step := range []struct {
		waiting, received int
		rest              bool
	}{
		{1, 1, false}, {1, 1, true}, {1 + 2*dialBatch, 1, true}, {0, dialBatch, false}, {0, dialBatch, false}, {1, 1, true},
	} {
		say(step.waiting)
		if step.rest { // so that the socket was not ready in the previous turn
			p.turn++
		}
		before := p.stats.In
		turn(t, p, &c)
		in := p.stats.In
		if got, calls := int(in.Datagrams-before.Datagrams), in.Calls-before.Calls; got != step.received || calls != 1 {
			t.Errorf("turn %d: %d datagrams by %d calls, want %d by 1", turns, got, calls, step.received)
		}
	}
}

// TestKernelDrops checks that datagrams dropped for lack of room are counted.
func TestKernelDrops(t *testing.T) {
	const sent = 500
	p := newEpollPoller(t)
	server := listen(t, p, SocketOptions{ReceiveBuffer: 1}) // the kernel raises it to its minimum
	client := dial(t, p, server.Addr())
	var c counter
	for round := range 3 { // later rounds show that the count continues
		server.(KernelDropCounter).SetFiltered(round == 2)
		for range sent {
			p.Send(client, netip.AddrPort{}, []byte("x"))
		}
		p.Flush()
		turn(t, p, &c)
		p.Send(client, netip.AddrPort{}, []byte("tell"))
		p.Flush()
		turn(t, p, &c)
		in := p.Stats().In.Datagrams
		got, want := p.Stats(), uint64((round+1)*(sent+1))
		if drops := got.KernelDrops + got.FilterDrops; got.KernelDrops == 0 || in+drops != want {
			t.Errorf("round %d: %d received and %d dropped, want %d in all", round, in, drops, want)
		}
		if (got.FilterDrops > 0) != (round == 2) || got.DialedDrops > 0 {
			t.Errorf("round %d: drops count as %+v", round, got)
		}
	}
}

// TestDropsOfDialedSockets checks that drops at dialed sockets are counted once each, while the session lasts.
func TestDropsOfDialedSockets(t *testing.T) {
	const sent = 500
	for name, o := range map[string]SocketOptions{
		"a socket of its own": {ReceiveBuffer: 8 << 10}, "shared": {ReceiveBuffer: 8 << 10, Shared: true},
	} {
		p := newEpollPoller(t)
		server := listen(t, p, SocketOptions{})
		s, err := p.Dial(server.Addr(), o)
		if err != nil {
			t.Fatal(err)
		}
		at := netip.AddrPortFrom(server.Addr().Addr(), s.Addr().Port())
		var c counter
		for round := range 3 {
			for range sent {
				p.Send(server, at, []byte("x"))
			}
			p.Flush()
			for before := -1; c.datagrams > before; {
				before = c.datagrams
				if err := p.Wait(time.Now()); err != nil {
					t.Fatal(err)
				}
				p.Receive(&c)
			}
			if round == 2 {
				s.Close()
			}
			got, want := p.Stats(), uint64((round+1)*sent)
			if in := got.In.Datagrams; got.DialedDrops == 0 || in+got.DialedDrops != want || got.KernelDrops > 0 {
				t.Errorf("%s, round %d: %d received, %+v; want %d in all", name, round, in, got, want)
			}
		}
	}
}

func TestReusePort(t *testing.T) {
	p := newEpollPoller(t)
	first := listen(t, p, SocketOptions{ReusePort: true})
	if _, err := newEpollPoller(t).Listen(first.Addr(), SocketOptions{ReusePort: true}); err != nil {
		t.Errorf("a second loop on %s: %v", first.Addr(), err)
	}
	portable := newPortable(Options{})
	if _, err := portable.Listen(first.Addr(), SocketOptions{ReusePort: true}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("portable: %v, want ErrUnsupported", err)
	}
}

// TestStaleEvent checks that an event of a closed socket is ignored.
func TestStaleEvent(t *testing.T) {
	p := newEpollPoller(t)
	s, peer := pair(t, p)
	if _, err := unix.Write(peer, []byte("x")); err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(s.fd) // as a child process has until its exec
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	var c counter
	turnNow := func() {
		if err := p.Wait(time.Now()); err != nil {
			t.Fatal(err)
		}
		p.Receive(&c)
	}
	turnNow()
	if err := unix.Close(copied); err != nil {
		t.Fatal(err)
	}
	if c.datagrams != 0 {
		t.Errorf("%d datagrams of a closed socket", c.datagrams)
	}
}

// TestThousandsOfSockets checks thousands of sessions with a socket each.
func TestThousandsOfSockets(t *testing.T) {
	const clients = 4000
	p := newEpollPoller(t)
	server := listen(t, p, SocketOptions{})
	var all []Socket
	for range clients {
		all = append(all, dial(t, p, server.Addr()))
	}
	var c counter
	for i, s := range all {
		p.Send(server, s.Addr(), fmt.Append(p.Buffer(), i))
	}
	p.Flush()
	for c.datagrams < clients {
		before := c.datagrams
		turn(t, p, &c)
		if c.datagrams == before {
			t.Fatalf("%d of %d datagrams came", c.datagrams, clients)
		}
	}
}
