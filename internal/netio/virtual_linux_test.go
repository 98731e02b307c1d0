package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/testkit/allocs"
	"tidegate/internal/testkit/await"
)

var loopbackSources = netip.MustParsePrefix("127.64.0.0/10")

// echoing echoes datagrams by the socket that received them.
type echoing struct {
	p    *epollPoller
	seen map[netip.AddrPort]int
	got  map[Socket]string
	bad  map[Socket]error
	mine func(Socket) bool // sockets whose datagrams are answers
}

func newEchoing(p *epollPoller) *echoing {
	return &echoing{
		p: p, seen: map[netip.AddrPort]int{}, got: map[Socket]string{}, bad: map[Socket]error{},
		mine: func(s Socket) bool { return s.Peer().IsValid() },
	}
}

func (e *echoing) Datagram(s Socket, from netip.AddrPort, datagram []byte) {
	if e.mine(s) {
		e.got[s] += string(datagram)
		return
	}
	e.seen[from]++
	e.p.Forward(s, from, datagram)
}

func (e *echoing) Failed(s Socket, err error) { e.bad[s] = err }

func (e *echoing) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(await.Patience); !done(); {
		if time.Now().After(limit) {
			t.Fatalf("did not see %s: %+v", what, e.p.Stats())
		}
		turn(t, e.p, e)
		e.p.Flush()
	}
}

// TestVirtualSockets dials two servers many times. With addresses of their own, the sessions share one descriptor;
// otherwise there are as many as one server has sessions. Each session receives only its own datagrams.
func TestVirtualSockets(t *testing.T) {
	for name, o := range map[string]SocketOptions{"own addresses": {Sources: loopbackSources}, "pooled": {Shared: true}} {
		t.Run(name, func(t *testing.T) {
			const sessions = 20
			p := newPollerWithRuns(t)
			servers := []Socket{listen(t, p, SocketOptions{}), listen(t, p, SocketOptions{})}
			e := newEchoing(p)
			var all []Socket
			want := map[Socket]string{}
			for i := range sessions {
				o.SourceKey = uint64(i * 1000)
				s, err := p.Dial(servers[i%2].Addr(), o)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s)
				want[s] = fmt.Sprint("session ", i)
				p.Send(s, netip.AddrPort{}, []byte(want[s]))
			}
			p.Flush()
			e.until(t, "the echoes", func() bool { return len(e.got) == sessions })
			for _, s := range all {
				if e.got[s] != want[s] {
					t.Errorf("%v heard %q, want %q", s.Addr(), e.got[s], want[s])
				}
			}
			descriptors := 0
			for _, w := range p.sockets {
				if w != nil {
					descriptors++
				}
			}
			// One is the deadline's timer.
			if want := map[bool]int{true: 4, false: 3 + sessions/2}[o.Sources.IsValid()]; descriptors != want {
				t.Errorf("%d descriptors, want %d", descriptors, want)
			}
			for _, s := range all {
				if o.Sources.IsValid() && (e.seen[s.Addr()] != 1 || !loopbackSources.Contains(s.Addr().Addr())) {
					t.Errorf("the server saw %v, not %v", e.seen, s.Addr())
				}
			}
			strangers(t, p, e, all[0])
			for _, s := range all[1:] {
				s.Close()
				s.Close()
			}
			p.Send(all[1], netip.AddrPort{}, []byte("closed"))
			p.Send(all[0], netip.AddrPort{}, []byte(" again"))
			p.Flush()
			e.until(t, "the session that is left", func() bool { return e.got[all[0]] == want[all[0]]+" again" })
			if s, err := p.Dial(servers[1].Addr(), o); err != nil || s == nil {
				t.Errorf("dial after all had closed: %v", err)
			}
		})
	}
}

// strangers sends a session a datagram from another peer.
func strangers(t *testing.T, p *epollPoller, e *echoing, s Socket) {
	t.Helper()
	conn, _ := plainSocket(t)
	to := s.Addr()
	if to.Addr().IsUnspecified() {
		to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
	}
	before := e.got[s]
	if _, err := conn.WriteToUDPAddrPort([]byte("forged"), to); err != nil {
		t.Fatal(err)
	}
	e.until(t, "the stranger", func() bool { return p.Stats().Strangers == 1 })
	if e.got[s] != before {
		t.Error("a session took a datagram of another peer")
	}
}

// TestSourcesAreChosenByKey checks that a key always has the same address, and that all addresses can be used.
func TestSourcesAreChosenByKey(t *testing.T) {
	p := newEpollPoller(t)
	to := netip.MustParseAddrPort("127.0.0.1:9")
	o := SocketOptions{Sources: netip.MustParsePrefix("127.99.0.0/30"), SourceKey: 1}
	first, _ := p.Dial(to, o)
	second, _ := p.Dial(to, o)
	if first.Addr().Addr().String() != "127.99.0.2" || second.Addr().Addr().String() != "127.99.0.1" {
		t.Errorf("addresses %v and %v", first.Addr(), second.Addr())
	}
	if _, err := p.Dial(to, o); !errors.Is(err, ErrNoSource) {
		t.Errorf("a third of two addresses: %v", err)
	}
	if s, err := p.Dial(netip.MustParseAddrPort("127.0.0.1:10"), o); err != nil || s.Addr() != first.Addr() {
		t.Errorf("towards another server: %v, %v", s, err)
	}
	first.Close()
	if s, err := p.Dial(to, o); err != nil || s.Addr() != first.Addr() {
		t.Errorf("again: %v, %v", s, err)
	}
	if _, err := p.Dial(netip.MustParseAddrPort("[::1]:10"), o); !errors.Is(err, ErrAddress) {
		t.Errorf("an IPv6 server from IPv4 addresses: %v", err)
	}
}

// TestVirtualSocketsHearRefusals checks that only the virtual socket with the closed port gets a report, and that
// datagrams of others are not lost.
func TestVirtualSocketsHearRefusals(t *testing.T) {
	for name, o := range map[string]SocketOptions{"own addresses": {Sources: loopbackSources}, "pooled": {Shared: true}} {
		t.Run(name, func(t *testing.T) {
			p := newEpollPoller(t)
			e := newEchoing(p)
			closed, gone := plainSocket(t)
			_ = closed.Close()
			o.SourceKey = 1
			lost, err := p.Dial(gone, o)
			if err != nil {
				t.Fatal(err)
			}
			o.SourceKey = 2
			fine, err := p.Dial(listen(t, p, SocketOptions{}).Addr(), o)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				p.Send(lost, netip.AddrPort{}, []byte("anyone?"))
				p.Flush()
				p.Send(fine, netip.AddrPort{}, []byte("x"))
				p.Flush()
			}
			e.until(t, "the refusal and the echoes", func() bool { return e.bad[lost] != nil && e.got[fine] == "xxx" })
			if !errors.Is(e.bad[lost], ErrRefused) || e.bad[fine] != nil {
				t.Errorf("told %v and %v", e.bad[lost], e.bad[fine])
			}
		})
	}
}

// TestIPv6Sources needs only the loopback interface: a prefix that is local to it, and freebind.
func TestIPv6Sources(t *testing.T) {
	prefix := netip.MustParsePrefix("::1/128")
	if err := CheckSources(prefix); err != nil {
		t.Skip(err)
	}
	p := newEpollPoller(t)
	server, err := p.Listen(netip.MustParseAddrPort("[::1]:0"), SocketOptions{})
	if err != nil {
		t.Skip(err)
	}
	e := newEchoing(p)
	s, err := p.Dial(server.Addr(), SocketOptions{Sources: prefix})
	if err != nil {
		t.Fatal(err)
	}
	p.Send(s, netip.AddrPort{}, []byte("hello"))
	p.Flush()
	e.until(t, "the echo", func() bool { return e.got[s] == "hello" })
	lost, err := p.Dial(netip.AddrPortFrom(prefix.Addr(), 1), SocketOptions{Sources: prefix})
	if err != nil {
		t.Fatal(err)
	}
	p.Send(lost, netip.AddrPort{}, []byte("anyone?"))
	p.Flush()
	e.until(t, "the refusal", func() bool { return errors.Is(e.bad[lost], ErrRefused) })
}

func TestCheckSources(t *testing.T) {
	if err := CheckSources(loopbackSources); err != nil {
		t.Error(err)
	}
	if err := CheckSources(netip.MustParsePrefix("192.0.2.0/24")); err == nil {
		t.Error("a documentation prefix is local")
	}
}

// TestAnswersLeaveFromTheAddressThatWasUsed checks a wildcard listener, also with IPv4 at an IPv6 listener.
func TestAnswersLeaveFromTheAddressThatWasUsed(t *testing.T) {
	for _, any := range []string{"0.0.0.0:0", "[::]:0"} {
		t.Run(any, func(t *testing.T) {
			p := newPollerWithRuns(t)
			server, err := p.Listen(netip.MustParseAddrPort(any), SocketOptions{})
			if err != nil {
				t.Fatal(err)
			}
			server.SetOwner("the listener's")
			faces := map[Socket]bool{}
			e := newEchoing(p)
			e.mine = func(s Socket) bool {
				if ListenerOf(s) != server || s.Owner() != "the listener's" {
					t.Errorf("came by %T of %v", s, s.Owner())
				}
				s.Close() // does nothing
				faces[s] = true
				return false
			}
			for _, host := range []string{"127.0.0.1", "127.9.8.7", "127.0.0.1"} {
				to := netip.AddrPortFrom(netip.MustParseAddr(host), server.Addr().Port())
				conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to)) // receives only from to
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				for range 3 {
					if _, err := conn.Write([]byte("hi")); err != nil {
						t.Fatal(err)
					}
				}
				before := sumOf(e.seen)
				e.until(t, "the question", func() bool { return sumOf(e.seen) >= before+3 })
				_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
				for range 3 {
					if n, err := conn.Read(make([]byte, 10)); n != 2 || err != nil {
						t.Fatalf("%s: %d bytes, %v", host, n, err)
					}
				}
			}
			if len(faces) != 2 {
				t.Errorf("%d local sockets, want 2", len(faces))
			}
		})
	}
}

func sumOf(m map[netip.AddrPort]int) (n int) {
	for _, c := range m {
		n += c
	}
	return n
}

func TestFacesAreBounded(t *testing.T) {
	p := newEpollPoller(t)
	s := listen(t, p, SocketOptions{}).(*epollSocket)
	f := newLocalSockets(s, &s.endpoint)
	for i := range uint64(2 * maxLocalSockets) {
		f.socketOf(netip.AddrPort{}, nthSource(loopbackSources, i))
	}
	if len(f.all) != maxLocalSockets {
		t.Errorf("%d local sockets, want %d", len(f.all), maxLocalSockets)
	}
	if got := f.socketOf(netip.AddrPort{}, nthSource(loopbackSources, 2*maxLocalSockets)); got != Socket(s) {
		t.Errorf("beyond them comes %T", got)
	}
	if got := f.socketOf(netip.AddrPort{}, netip.Addr{}); got != Socket(s) {
		t.Errorf("without an address comes %T", got)
	}
}

func TestLanesDoNotAllocate(t *testing.T) {
	p := newPollerWithRuns(t)
	server, err := p.Listen(netip.MustParseAddrPort("0.0.0.0:0"), SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), server.Addr().Port())
	var all [8]Socket
	for i := range all {
		if all[i], err = p.Dial(to, SocketOptions{Sources: loopbackSources, SourceKey: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	e := &counting{p: p}
	payload := make([]byte, 200)
	if n := allocs.PerRun(100, func() {
		want := e.answers + 2*len(all)
		for _, s := range all {
			p.Send(s, netip.AddrPort{}, payload)
			p.Send(s, netip.AddrPort{}, payload)
		}
		for p.Flush(); e.answers < want; p.Flush() {
			turn(t, p, e)
		}
	}); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// counting echoes datagrams, and counts the answers.
type counting struct {
	p       *epollPoller
	answers int
}

func (c *counting) Datagram(s Socket, from netip.AddrPort, datagram []byte) {
	if s.Peer().IsValid() {
		c.answers++
		return
	}
	c.p.Forward(s, from, datagram)
}

func (c *counting) Failed(Socket, error) {}

// TestPortableLocalsAreBounded asks for more local sockets than a listener of the portable backend may have.
func TestPortableLocalsAreBounded(t *testing.T) {
	p := newPortable(Options{})
	defer func() { _ = p.Close() }()
	s, err := p.Listen(netip.MustParseAddrPort("0.0.0.0:0"), SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := s.(LocalSockets)
	all := make(map[Socket]bool)
	for i := range uint64(2 * maxLocalSockets) {
		all[at.LocalSocket(nthSource(loopbackSources, i))] = true
	}
	if len(all) != maxLocalSockets+1 || !all[s] {
		t.Errorf("%d sockets, want %d and the listener", len(all), maxLocalSockets)
	}
}
