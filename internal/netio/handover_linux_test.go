package netio_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/netio"
)

// successor makes a Poller that goes on with all sockets of another one. Sockets named by keep get an owner.
func (l *loop) successor(listeners map[netio.Socket]any, keep ...*netio.Socket) *loop {
	l.t.Helper()
	l.Flush()
	old, next := l.Poller.(netio.Handover), newLoop(l.t, netio.Options{Backend: netio.Epoll})
	fresh := next.Poller.(netio.Handover)
	for s, options := range listeners {
		fd, err := old.Copy(s)
		must(l.t, err)
		var adopted netio.Socket
		if o, ok := options.(netio.StreamOptions); ok {
			adopted, err = fresh.AdoptStream(fd, o)
		} else {
			adopted, err = fresh.Adopt(fd, netio.SocketOptions{})
		}
		netio.CloseCopies([]int{fd})
		must(l.t, err)
		adopted.SetOwner("listener")
	}
	state, descriptors := old.Export(false)
	must(l.t, fresh.Import(state, copies(l.t, descriptors)))
	for _, s := range keep {
		named, rest := fresh.Named(append(old.AppendName(nil, *s), "rest"...))
		if named == nil || string(rest) != "rest" || named.Addr() != (*s).Addr() || named.Peer() != (*s).Peer() {
			l.t.Fatalf("%v to %v became %v", (*s).Addr(), (*s).Peer(), named)
		}
		if named.Owner() == nil {
			named.SetOwner("session")
		}
		*s = named
	}
	fresh.CloseUnclaimed()
	old.Leave()
	return next
}

func copies(t testing.TB, descriptors []int) (all []int) {
	t.Helper()
	for _, fd := range descriptors {
		c, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		must(t, err)
		all = append(all, c)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHandover hands over listening sockets, and every kind of dialed socket with a datagram in its buffer. All go on
// with their addresses, in both directions. No datagram is lost, and a socket without an owner is closed.
func TestHandover(t *testing.T) {
	for _, c := range []struct {
		name, at string
		options  netio.SocketOptions
	}{
		{"connected", "127.0.0.1:0", netio.SocketOptions{}},
		{"connected, IPv6", "[::1]:0", netio.SocketOptions{DontFragment: true}},
		{"shared", "127.0.0.1:0", netio.SocketOptions{Shared: true, ReceiveBuffer: 100_000}},
		{"shared, IPv6", "[::1]:0", netio.SocketOptions{Shared: true}},
		{"of a prefix", "127.0.0.1:0", netio.SocketOptions{Sources: netip.MustParsePrefix("127.9.0.0/24")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := newLoop(t, netio.Options{Backend: netio.Epoll})
			peers := newLoop(t, netio.Options{Backend: netio.Portable})
			const members = 5
			var all []netio.Socket
			var keep []*netio.Socket
			for i := range members {
				c.options.SourceKey = uint64(i)
				at := peers.listen(netip.MustParseAddrPort(c.at))
				s, err := old.Dial(at.Addr(), c.options)
				must(t, err)
				old.send(s, netip.AddrPort{}, fmt.Sprint("question ", i))
				all = append(all, s)
			}
			for i := 1; i < members; i++ { // the first one gets no owner
				keep = append(keep, &all[i])
			}
			old.Flush()
			peers.untilReceived(members)
			for _, r := range peers.received {
				peers.send(r.socket, r.from, "answer")
			}
			peers.Flush()
			next := old.successor(nil, keep...)
			next.untilReceived(members - 1)
			for _, s := range all[1:] {
				next.send(s, netip.AddrPort{}, "again")
			}
			next.Flush()
			before := peers.received[:members:members]
			peers.untilReceived(2*members - 1)
			for _, r := range peers.received[members:] {
				was := false
				for _, first := range before {
					was = was || first.from == r.from && first.socket == r.socket
				}
				if !was {
					t.Errorf("the peer %v hears %v, which it does not know", r.socket.Addr(), r.from)
				}
			}
			if _, err := next.Dial(all[1].Peer(), c.options); err != nil {
				t.Errorf("a further socket: %v", err)
			}
		})
	}
}

// TestHandoverOfListeners hands over a listening socket in the middle of its datagrams.
func TestHandoverOfListeners(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		t.Run(at, func(t *testing.T) {
			old := newLoop(t, netio.Options{Backend: netio.Epoll})
			s := old.listen(netip.MustParseAddrPort(at))
			to := s.Addr()
			if to.Addr().IsUnspecified() {
				to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
			}
			client, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
			must(t, err)
			defer func() { _ = client.Close() }()
			_, err = client.Write([]byte("one"))
			must(t, err)
			old.untilReceived(1)
			_, err = client.Write([]byte("two"))
			must(t, err)
			next := old.successor(map[netio.Socket]any{s: nil})
			next.untilReceived(1)
			if got := next.received[0]; got.datagram != "two" {
				t.Errorf("received %+v", got)
			}
			next.send(next.received[0].socket, client.LocalAddr().(*net.UDPAddr).AddrPort(), "answer")
			next.Flush()
			_ = client.SetReadDeadline(time.Now().Add(patience))
			b := make([]byte, 10)
			if n, err := client.Read(b); err != nil || string(b[:n]) != "answer" {
				t.Errorf("heard %q, %v", b[:n], err)
			}
		})
	}
}

// TestHandoverOfStreams hands over a listener and its connections: in the middle of a frame, with bytes that the
// kernel has not taken yet, before the first frame, and after Close.
func TestHandoverOfStreams(t *testing.T) {
	old := newLoop(t, netio.Options{Backend: netio.Epoll})
	o := netio.StreamOptions{MaxConns: 4, HelloTimeout: time.Minute, Backlog: 32 << 20}
	listener := old.listenStream(o)
	listener.SetOwner("listener")
	var accepted []netio.Socket
	old.onDatagram = func(s netio.Socket, _ netip.AddrPort, _ []byte) { accepted = append(accepted, s) }
	partial, slow, closed := netConn(t, listener.Addr()), netConn(t, listener.Addr()), netConn(t, listener.Addr())
	for i, conn := range []*net.TCPConn{partial, slow, closed} {
		write(t, conn, framed("hello"))
		old.untilReceived(i + 1)
	}
	silent := netConn(t, listener.Addr())
	write(t, partial, framed("in two parts")[:5])
	write(t, silent, framed("hello")[:1])
	for range 10 {
		old.turn(time.Now())
	}
	const frames = 4000
	large := string(make([]byte, 4000))
	for range frames {
		old.send(accepted[1], netip.AddrPort{}, large)
	}
	old.send(accepted[2], netip.AddrPort{}, "goodbye")
	accepted[2].Close()
	dialed := old.dialStream(netListener(t).Addr().(*net.TCPAddr).AddrPort(), netio.StreamOptions{})

	next := old.successor(map[netio.Socket]any{listener: o}, &accepted[0], &accepted[1], &dialed)
	write(t, partial, framed("in two parts")[5:])
	write(t, silent, framed("hello")[1:])
	next.untilReceived(2)
	heard := map[string]bool{next.received[0].datagram: true, next.received[1].datagram: true}
	if !heard["in two parts"] || !heard["hello"] {
		t.Errorf("received %v", heard)
	}
	read := 0
	next.inBackground("all that was sent", func() {
		for b := make([]byte, 1<<16); read < frames*(4000+2); {
			n, err := slow.Read(b)
			if read += n; err != nil {
				return
			}
		}
	})
	if read != frames*(4000+2) {
		t.Errorf("the slow client read %d bytes, want %d", read, frames*(4000+2))
	}
	b := make([]byte, 100)
	if n, err := closed.Read(b); err != nil || string(b[:n]) != string(framed("goodbye")) {
		t.Errorf("the closed one heard %q, %v", b[:n], err)
	}
	_ = closed.Close()
	next.send(dialed, netip.AddrPort{}, "by a dialed one")
	next.Flush()
	if got := next.Stats().Errors; got != 0 {
		t.Errorf("%d errors", got)
	}
	if _, err := next.Poller.(netio.Handover).Adopt(-1, netio.SocketOptions{}); err == nil {
		t.Error("no descriptor was adopted")
	}
}

// TestHandoverOfEndedStream names a stream that its peer has closed. The name is of no other socket, though another one
// has the descriptor's number by now.
func TestHandoverOfEndedStream(t *testing.T) {
	old := newLoop(t, netio.Options{Backend: netio.Epoll})
	o := netio.StreamOptions{}
	listener := old.listenStream(o)
	listener.SetOwner("listener")
	leaves := netConn(t, listener.Addr())
	write(t, leaves, framed("hello"))
	old.untilReceived(1)
	ended := old.received[0].socket
	number := old.Poller.(netio.Handover).AppendName(nil, ended)
	must(t, leaves.Close())
	old.untilFailed(1)
	next := netConn(t, listener.Addr())
	write(t, next, framed("hello"))
	old.untilReceived(2)
	live := old.received[1].socket
	if string(old.Poller.(netio.Handover).AppendName(nil, live)) != string(number) {
		t.Fatal("the descriptor's number was not used again")
	}
	following := old.successor(map[netio.Socket]any{listener: o}, &ended, &live)
	if ended == live {
		t.Fatal("the ended stream became the live one")
	}
	following.send(ended, netip.AddrPort{}, "to a client that has left")
	ended.Close()
	write(t, next, framed("still here"))
	following.untilReceived(1)
	again := following.Poller.(netio.Handover)
	if s, _ := again.Named(again.AppendName(nil, ended)); s == nil || s.Peer() != ended.Peer() {
		t.Errorf("the next successor gets %v", s)
	}
}

// TestHandoverOfDrops checks that the kernel's drops at a socket count once, for the process that listened then.
func TestHandoverOfDrops(t *testing.T) {
	const sent = 100
	old, fresh := newLoop(t, netio.Options{Backend: netio.Epoll}), newLoop(t, netio.Options{Backend: netio.Epoll})
	s, err := old.Listen(loopback, netio.SocketOptions{ReceiveBuffer: 1})
	must(t, err)
	flood := func() {
		client, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.Addr()))
		must(t, err)
		defer func() { _ = client.Close() }()
		for range sent {
			_, err := client.Write(make([]byte, 1000))
			must(t, err)
		}
	}
	flood()
	before := old.Stats().KernelDrops
	fd, err := old.Poller.(netio.Handover).Copy(s)
	must(t, err)
	_, err = fresh.Poller.(netio.Handover).Adopt(fd, netio.SocketOptions{ReceiveBuffer: 1})
	netio.CloseCopies([]int{fd})
	must(t, err)
	if got := fresh.Stats().KernelDrops; got != 0 {
		t.Errorf("%d drops count as the new process's before it listens", got)
	}
	flood()
	if got := fresh.Stats().KernelDrops; before == 0 || got == 0 || got > sent {
		t.Errorf("drops of the old process: %d; of the new one %d", before, got)
	}
}

// TestImportOfDamagedState gives Import states with single bytes changed, and cut ones. None makes it fail badly, and
// no descriptor stays open.
func TestImportOfDamagedState(t *testing.T) {
	old := newLoop(t, netio.Options{Backend: netio.Epoll})
	at := old.listen(loopback)
	old.dial(at.Addr())
	_, err := old.Dial(at.Addr(), netio.SocketOptions{Shared: true})
	must(t, err)
	old.dialStream(netListener(t).Addr().(*net.TCPAddr).AddrPort(), netio.StreamOptions{})
	state, descriptors := old.Poller.(netio.Handover).Export(false)
	open := openDescriptors(t)
	try := func(state []byte) error {
		p, err := netio.New(netio.Options{Backend: netio.Epoll})
		must(t, err)
		defer func() { must(t, p.Close()) }()
		err = p.(netio.Handover).Import(state, copies(t, descriptors))
		p.(netio.Handover).CloseUnclaimed()
		return err
	}
	must(t, try(state))
	for i := range state {
		if try(state[:i]) == nil && i > 0 {
			t.Errorf("the first %d bytes were accepted", i)
		}
		damaged := append([]byte(nil), state...)
		damaged[i] ^= 0x55
		_ = try(damaged)
	}
	checkDescriptors(t, open)
}

// checkDescriptors asserts that all open descriptors were open before.
func checkDescriptors(t testing.TB, before map[string]string) {
	t.Helper()
	for fd, file := range openDescriptors(t) {
		if before[fd] != file {
			t.Errorf("descriptor %s is open: %s", fd, file)
		}
	}
}

// openDescriptors returns what each open descriptor leads to. Other tests may leave some that the garbage collector
// closes later.
func openDescriptors(t testing.TB) map[string]string {
	t.Helper()
	const folder = "/proc/self/fd"
	listed, err := os.ReadDir(folder)
	must(t, err)
	all := make(map[string]string)
	for _, fd := range listed {
		if file, err := os.Readlink(filepath.Join(folder, fd.Name())); err == nil { // not the folder itself
			all[fd.Name()] = file
		}
	}
	return all
}

// BenchmarkHandover exports and imports 5,000 connected sockets.
func BenchmarkHandover(b *testing.B) {
	const sockets = 5000
	old := newLoop(b, netio.Options{Backend: netio.Epoll})
	at := old.listen(loopback)
	for range sockets {
		old.dial(at.Addr())
	}
	netio.Reserve(4 * sockets)
	for b.Loop() {
		state, descriptors := old.Poller.(netio.Handover).Export(false)
		b.StopTimer()
		taken := copies(b, descriptors)
		next, err := netio.New(netio.Options{Backend: netio.Epoll})
		must(b, err)
		b.StartTimer()
		must(b, next.(netio.Handover).Import(state, taken))
		b.StopTimer()
		next.(netio.Handover).Leave()
		b.StartTimer()
	}
}

// TestFailedHandover imports sockets and closes them all, as a successor that fails may do. The other process goes on.
func TestFailedHandover(t *testing.T) {
	old := newLoop(t, netio.Options{Backend: netio.Epoll})
	peers := newLoop(t, netio.Options{Backend: netio.Portable})
	peer, tcp := peers.listen(loopback), netListener(t)
	datagrams := old.dial(peer.Addr())
	stream := old.dialStream(tcp.Addr().(*net.TCPAddr).AddrPort(), netio.StreamOptions{})
	conn := acceptNet(t, tcp)
	write(t, conn, framed("hello"))
	old.untilReceived(1)
	old.send(stream, netip.AddrPort{}, "one")
	old.Flush()
	state, descriptors := old.Poller.(netio.Handover).Export(false)
	next := newLoop(t, netio.Options{Backend: netio.Epoll})
	must(t, next.Poller.(netio.Handover).Import(state, copies(t, descriptors)))
	next.Poller.(netio.Handover).CloseUnclaimed()

	old.send(datagrams, netip.AddrPort{}, "two")
	old.send(stream, netip.AddrPort{}, "two")
	old.Flush()
	peers.untilReceived(1)
	b := make([]byte, 10)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != string(framed("one"))+string(framed("two")) {
		t.Errorf("the stream's peer read %q, %v", b, err)
	}
}

// TestCopiesAreNotWatched checks that no epoll descriptor of the process watches a copy, as Go's own poller would watch
// an os.File.
func TestCopiesAreNotWatched(t *testing.T) {
	p := newLoop(t, netio.Options{Backend: netio.Epoll})
	s := p.listen(loopback)
	fd, err := p.Poller.(netio.Handover).Copy(s)
	must(t, err)
	defer netio.CloseCopies([]int{fd})
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	must(t, err)
	watched := 0
	for _, name := range infos {
		info, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) { // of the list itself
			continue
		}
		must(t, err)
		for line := range strings.Lines(string(info)) {
			var target int
			if _, err := fmt.Sscanf(line, "tfd: %d", &target); err != nil {
				continue
			}
			if watched++; target == fd {
				t.Errorf("%s watches the copy", name)
			}
		}
	}
	if watched == 0 {
		t.Error("no descriptor is watched, not even the listener's")
	}
}
