package netio

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// collector keeps its input, and may forward it.
type collector struct {
	got       []string
	forwarder *epollPoller // nil: none
	by        Socket
	to        netip.AddrPort
}

func (c *collector) Datagram(_ Socket, _ netip.AddrPort, datagram []byte) {
	c.got = append(c.got, string(datagram))
	if c.forwarder != nil {
		c.forwarder.Forward(c.by, c.to, datagram)
	}
}

func (c *collector) Failed(Socket, error) {}

// plainSocket is a socket of package net, without runs.
func plainSocket(t *testing.T) (*net.UDPConn, netip.AddrPort) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// sized returns datagrams of the given lengths, all different.
func sized(lengths ...int) (all []string) {
	for i, n := range lengths {
		b := make([]byte, n)
		for j := range b {
			b[j] = byte(i*31 + j)
		}
		all = append(all, string(b))
	}
	return all
}

// TestRuns sends datagrams of many lengths to two peers. Each arrives unchanged and in order, with and without runs.
func TestRuns(t *testing.T) {
	lengths := []int{200, 200, 200, 50, 50, 0, 300, 300, 1, 1, 1, 1400, 1400, 1400, 700, 4000, 4000}
	for _, mixed := range []bool{false, true} {
		t.Run(fmt.Sprint("mixed ", mixed), func(t *testing.T) {
			p := newPollerWithRuns(t)
			sender := listen(t, p, SocketOptions{})
			conn, plain := plainSocket(t)
			joined := listen(t, p, SocketOptions{})
			want := sized(lengths...)
			for i := range want {
				p.Send(sender, plain, []byte(want[i]))
				if mixed { // then there are no runs
					p.Send(sender, joined.Addr(), []byte(want[i]))
				}
			}
			for i := range want {
				if !mixed {
					p.Send(sender, joined.Addr(), []byte(want[i]))
				}
			}
			p.Flush()
			if got := p.Stats(); got.Out.Calls != 1 || got.Errors+got.TooLarge+got.WouldBlock != 0 {
				t.Errorf("stats %+v", got)
			}
			_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
			b := make([]byte, MaxDatagram)
			for i, d := range want {
				if n, err := conn.Read(b); err != nil || string(b[:n]) != d {
					t.Fatalf("datagram %d of %d bytes came as %d, %v", i, len(d), n, err)
				}
			}
			var c collector
			for len(c.got) < len(want) {
				turn(t, p, &c)
			}
			if fmt.Sprint(c.got) != fmt.Sprint(want) {
				t.Error("what came in runs is not what was sent")
			}
		})
	}
}

// TestRunsAreJoinedOnTheWay checks that a run arrives as one message, and is forwarded as one without a copy.
func TestRunsAreJoinedOnTheWay(t *testing.T) {
	p := newPollerWithRuns(t)
	server := listen(t, p, SocketOptions{})
	client := dial(t, p, server.Addr())
	onward, end := plainSocket(t)
	want := sized(500, 500, 500, 500, 20)
	for _, d := range want {
		p.Send(client, netip.AddrPort{}, []byte(d))
	}
	p.Flush()
	before := p.Stats()
	c := collector{forwarder: p, by: server, to: end}
	turn(t, p, &c)
	if p.in.next == 0 {
		t.Error("the datagrams were copied")
	}
	p.Flush()
	if p.in.next != 0 {
		t.Error("the inbox is still lent")
	}
	after := p.Stats()
	if after.In.Datagrams-before.In.Datagrams != 5 || after.Out.Datagrams-before.Out.Datagrams != 5 ||
		after.Out.Calls-before.Out.Calls != 1 {
		t.Errorf("stats %+v, then %+v", before, after)
	}
	_ = onward.SetReadDeadline(time.Now().Add(await.Patience))
	b := make([]byte, MaxDatagram)
	for i, d := range want {
		if n, err := onward.Read(b); err != nil || string(b[:n]) != d {
			t.Fatalf("datagram %d of %d bytes came as %d, %v", i, len(d), n, err)
		}
	}
}

// TestForwardedBytesStay forwards more datagrams than the inbox has slots, from more sockets than one read takes,
// before it flushes.
func TestForwardedBytesStay(t *testing.T) {
	p := newEpollPoller(t) // each datagram in a message of its own
	front := listen(t, p, SocketOptions{})
	back, end := plainSocket(t)
	_ = back.SetReadBuffer(4 << 20)
	const clients, each = 40, 10
	for i := range clients {
		c := dial(t, p, front.Addr())
		for j := range each {
			p.Send(c, netip.AddrPort{}, fmt.Appendf(nil, "%d from %d", j, i))
		}
	}
	p.Flush()
	c := collector{forwarder: p, by: front, to: end}
	for len(c.got) < clients*each {
		turn(t, p, &c)
	}
	p.Flush()
	_ = back.SetReadDeadline(time.Now().Add(await.Patience))
	b := make([]byte, MaxDatagram)
	for i, want := range c.got {
		if n, err := back.Read(b); err != nil || string(b[:n]) != want {
			t.Fatalf("datagram %d is %q, want %q; %v", i, b[:n], want, err)
		}
	}
}

// TestRunToNowhere checks that a run with an address that the kernel refuses does not end further runs.
func TestRunToNowhere(t *testing.T) {
	p := newPollerWithRuns(t)
	sender, largest := listen(t, p, SocketOptions{}), p.out.flight.largest
	for range 3 {
		p.Send(sender, netip.MustParseAddrPort("127.0.0.1:0"), make([]byte, 100)) // EINVAL
	}
	p.Flush()
	if got := p.Stats(); got.Errors != 3 || p.out.flight.largest != largest {
		t.Errorf("%d errors, want 3; the largest datagram of a run is %d, want %d", got.Errors, p.out.flight.largest, largest)
	}
}

// TestRunsWithoutTheKernel checks that the datagrams of a refused run leave one by one, and that no run of that size
// is tried again.
func TestRunsWithoutTheKernel(t *testing.T) {
	for _, c := range []struct {
		errno   error
		largest int
	}{{unix.EINVAL, 499}, {unix.EMSGSIZE, 499}, {unix.EIO, 0}} {
		p := newPollerWithRuns(t)
		f := &p.out.flight
		f.iovecs[0].SetLen(500)
		run := mmsghdr{}
		run.Iov = &f.iovecs[0]
		if !f.runRefused(c.errno.(unix.Errno), &run) || f.largest != c.largest {
			t.Errorf("after %v the largest is %d, want %d", c.errno, f.largest, c.largest)
		}
	}
	// The datagrams would have to exceed the MTU of the loopback interface, but MaxDatagram is smaller. So the run is
	// refused here because of a segment that is larger than the whole message.
	p := newPollerWithRuns(t)
	sender := listen(t, p, SocketOptions{}).(*epollSocket)
	conn, plain := plainSocket(t)
	want := sized(100, 100, 100)
	for _, d := range want {
		p.Send(sender, plain, []byte(d))
	}
	p.out.flight.load(p.out, &sender.queue)
	p.out.flight.sendSingly(sender, &p.out.flight.batch[0])
	_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
	b := make([]byte, MaxDatagram)
	for i, d := range want {
		if n, err := conn.Read(b); err != nil || string(b[:n]) != d {
			t.Fatalf("datagram %d came as %d bytes, %v", i, n, err)
		}
	}
	if got := p.Stats().Out; got.Datagrams != 3 || got.Calls != 3 {
		t.Errorf("sent %+v", got)
	}
}
