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

// echoing sends back what comes, by the socket that it came by.
type echoing struct {
	p    *epollPoller
	seen map[netip.AddrPort]int
	got  map[Socket]string
	bad  map[Socket]error
	mine func(Socket) bool // whose datagrams are answers
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
			t.Fatalf("waited in vain for %s: %+v", what, e.p.Stats())
		}
		turn(t, e.p, e)
		e.p.Flush()
	}
}

// TestLanes dials two servers many times: by one descriptor where each has an address of its own, and else by as many as one
// server has sessions. Each hears its own.
func TestLanes(t *testing.T) {
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
			if want := map[bool]int{true: 3, false: 2 + sessions/2}[o.Sources.IsValid()]; descriptors != want {
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

// strangers sends a session a datagram that is not its server's.
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
		t.Error("a session took a stranger's datagram")
	}
}

// TestSourcesAreChosenByKey: one key always has one address, and as many as are needed.
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

// TestLanesHearRefusals: of those that share a descriptor, the one whose server is not there is told, and nobody else; and
// nothing that others send is lost by it.
func TestLanesHearRefusals(t *testing.T) {
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

// TestIPv6Sources needs no more than the loopback interface: a prefix that is local to it and freebind.
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

// TestAnswersLeaveFromTheAddressThatWasUsed, and the same by IPv4 to an IPv6 listener.
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
				conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to)) // hears only to
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
				t.Errorf("%d faces, want 2", len(faces))
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
	f := newFaces(s)
	for i := range uint64(2 * maxFaces) {
		f.socketOf(netip.AddrPort{}, nthSource(loopbackSources, i))
	}
	if len(f.all) != maxFaces {
		t.Errorf("%d faces, want %d", len(f.all), maxFaces)
	}
	if got := f.socketOf(netip.AddrPort{}, nthSource(loopbackSources, 2*maxFaces)); got != Socket(s) {
		t.Errorf("beyond them comes %T", got)
	}
	if got := f.socketOf(netip.AddrPort{}, at{}); got != Socket(s) {
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

// counting echoes, and counts the answers.
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
