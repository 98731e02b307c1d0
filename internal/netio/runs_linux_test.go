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

// collector keeps what it receives, and forwards it to where it is told.
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

// plainSocket is a socket of package net, which knows nothing of runs.
func plainSocket(t *testing.T) (*net.UDPConn, netip.AddrPort) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// sized are datagrams of the given lengths, each unlike the others.
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

// TestRuns sends datagrams of many lengths to two peers: each arrives as it was, in order, whether they went in runs or not.
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
				if mixed { // which leaves no runs
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

// TestRunsAreJoinedOnTheWay: what was sent as a run comes as one message, and is forwarded as one, uncopied.
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
	if after.In.Datagrams-before.In.Datagrams != 5 || after.Out.Datagrams-before.Out.Datagrams != 5 || after.Out.Calls-before.Out.Calls != 1 {
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

// TestForwardedBytesStay forwards more than the inbox has slots for, from more sockets than one read takes, before it flushes.
func TestForwardedBytesStay(t *testing.T) {
	p := newEpollPoller(t) // each datagram by itself
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

// TestRunsWithoutTheKernel: where a run is refused, its datagrams go each by itself, and no run so large is tried again.
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
		if !f.runsFail(c.errno.(unix.Errno), &run) || f.largest != c.largest {
			t.Errorf("after %v the largest is %d, want %d", c.errno, f.largest, c.largest)
		}
	}
	// Longer than the kernel cuts: it wants the MTU of the loopback interface for each, and MaxDatagram is below it. So a
	// run is refused here by a segment that is larger than the whole.
	p := newPollerWithRuns(t)
	sender := listen(t, p, SocketOptions{}).(*epollSocket)
	conn, plain := plainSocket(t)
	want := sized(100, 100, 100)
	for _, d := range want {
		p.Send(sender, plain, []byte(d))
	}
	p.out.flight.load(p.out, &sender.queue)
	p.out.flight.sendApart(sender, &p.out.flight.batch[0])
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
