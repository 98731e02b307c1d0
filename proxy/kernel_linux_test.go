package proxy_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/await"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/bridge"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
	"tidegate/session"
)

// shielded is a running proxy with filters in the kernel.
type shielded struct {
	*running
	t    *testing.T
	bans *ratelimit.Bans
}

func startShielded(t *testing.T, loops int, protocols ...codec.Protocol) *shielded {
	t.Helper()
	s, err := shield.New(shield.Options{PacketRate: 1, Burst: 20, Sources: 1 << 16, Bans: 64, Known: 64, Loops: loops})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return startWithKernel(t, loops, proxy.Kernel{Shield: s}, protocols...)
}

func startWithKernel(t *testing.T, loops int, kernel proxy.Kernel, protocols ...codec.Protocol) *shielded {
	t.Helper()
	bans := ratelimit.NewBans(ratelimit.Terms{})
	settings := &relay.Settings{
		Listeners: []relay.Listener{{Name: "play", Addr: anyPort, Protocols: protocols, Route: &relay.Route{
			Name: "arena",
			Bridge: bridge.Options{
				Ordered: policy.OrderedFast, Reliable: policy.ReliableResend, PacketID: 0x86, Queue: 1 << 20,
			},
			Upstream: &relay.Upstream{Name: "arena", Protocol: bedrock(), Servers: []upstream.Target{{Addr: closedPort(t)}}},
		}}},
		Limits:           session.Limits{Sessions: 100, HalfOpen: 100},
		HandshakeTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, DrainTimeout: time.Second,
	}
	server, err := proxy.Listen(settings, proxy.Options{
		Loops: loops, Log: zerolog.Nop(), Bans: bans, Kernel: kernel,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{
		addr: server.Addrs()[0], settings: settings, server: server, captures: captures.New(server, nil, 0), stop: cancel,
		ended: make(chan error, 1),
	}
	go func() { r.ended <- server.Run(ctx) }()
	t.Cleanup(func() { r.end(t) })
	return &shielded{r, t, bans}
}

// send sends datagrams of one byte each from a loopback address.
func (s *shielded) send(from string, firsts ...byte) {
	s.t.Helper()
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	conn, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(s.addr))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, b := range firsts {
		if _, err := conn.Write([]byte{b}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// want waits until the filters have judged as wanted. It checks that exactly the passed datagrams reached the proxy.
func (s *shielded) want(what string, want map[string]uint64) {
	s.t.Helper()
	await.Nil(s.t, func() error {
		got, came := s.judged(), s.server.Snapshot().Counters.Clients.In.Messages
		if maps.Equal(got, want) && came == want["passed"] {
			return nil
		}
		return fmt.Errorf("%s: the filters judged %v, and %d came here; want %v", what, got, came, want)
	})
}

// TestShield checks drops of each kind in front of all loops' sockets. Bans and reloads change them.
func TestShield(t *testing.T) {
	for _, loops := range []int{1, 2} {
		s := startShielded(t, loops, bedrock())
		s.send("127.1.0.1", 0x00, 0x01, 0x84, 0x7f)
		s.want("first bytes", map[string]uint64{"passed": 2, "first-byte": 2})

		network := netip.MustParsePrefix("127.2.0.0/16")
		s.bans.Add(ratelimit.Ban{Prefix: network, Until: time.Now().Add(time.Hour)})
		s.until("banned", "127.2.0.1", 0x00)
		s.bans.Remove(network)
		s.until("first-byte", "127.2.0.1", 0x00)
		s.send("127.3.0.1", bytesOf(0x01, 30)...)
		before := s.judged()
		before["passed"], before["rate"] = 2+20, 10
		s.want("rate", before)

		next := *s.settings
		next.Listeners = []relay.Listener{s.settings.Listeners[0]}
		next.Listeners[0].Protocols = []codec.Protocol{bedrock(), riptide.New(riptide.Options{})}
		if err := s.server.Reload(&next); err != nil {
			t.Fatal(err)
		}
		s.send("127.4.0.1", 0x00, 0x03) // 0x00 belongs to Riptide
		before["passed"]++
		before["first-byte"]++
		s.want("after a reload", before)
	}
}

// until sends datagrams until the filters judge one as verdict. The filters learn of bans a little later.
func (s *shielded) until(verdict, from string, first byte) {
	s.t.Helper()
	before := s.judged()[verdict]
	await.Nil(s.t, func() error {
		s.send(from, first)
		if got := s.judged(); got[verdict] == before {
			return fmt.Errorf("the filters judge nothing %s: %v", verdict, got)
		}
		return nil
	})
}

// judged returns the counts of the sockets' filters by verdict.
func (s *shielded) judged() map[string]uint64 {
	got := make(map[string]uint64)
	for _, f := range s.server.Snapshot().Kernel.Filtered {
		if f.Hook == "socket" && f.Datagrams > 0 {
			got[f.Verdict] = f.Datagrams
		}
	}
	return got
}

// came waits until the proxy has received want datagrams.
func (s *shielded) came(want uint64) {
	s.t.Helper()
	await.Nil(s.t, func() error {
		if got := s.server.Snapshot().Counters.Clients.In.Messages; got != want {
			return fmt.Errorf("%d datagrams came in, want %d", got, want)
		}
		return nil
	})
}

// TestPlainFilter asserts that impossible datagrams do not arrive even without the right to use eBPF. A reload
// changes the filter.
func TestPlainFilter(t *testing.T) {
	s := startWithKernel(t, 2, proxy.Kernel{Plain: true}, bedrock())
	s.send("127.1.0.1", 0x00, 0x7f, 0x01)
	s.came(1)
	next := *s.settings
	next.Listeners = []relay.Listener{s.settings.Listeners[0]}
	next.Listeners[0].Protocols = []codec.Protocol{bedrock(), riptide.New(riptide.Options{})}
	if err := s.server.Reload(&next); err != nil {
		t.Fatal(err)
	}
	s.send("127.1.0.1", 0x03, 0x00)
	s.came(2)
}

func bytesOf(b byte, n int) (all []byte) {
	for range n {
		all = append(all, b)
	}
	return all
}

// TestUnshielded asserts that a listener behind trusted proxies has no filter, even if it had one before.
func TestUnshielded(t *testing.T) {
	s := startShielded(t, 1, bedrock())
	s.send("127.1.0.1", 0x00)
	s.want("with a filter", map[string]uint64{"first-byte": 1})
	next := *s.settings
	next.Listeners = []relay.Listener{s.settings.Listeners[0]}
	next.Listeners[0].ProxiesFrom = []netip.Prefix{netip.MustParsePrefix("127.1.0.0/16")}
	if err := s.server.Reload(&next); err != nil {
		t.Fatal(err)
	}
	s.send("127.1.0.1", 0x00)
	s.came(1)
	if got := s.judged(); got["first-byte"] != 1 || got["passed"] != 0 {
		t.Errorf("the filters have judged %v, want only what came before", got)
	}
}

// sendRun sends datagrams of one byte each at once, which the kernel moves as one packet.
func (s *shielded) sendRun(from string, first byte, n int) {
	s.t.Helper()
	p, err := netio.New(netio.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	socket, err := p.Dial(s.addr, netio.SocketOptions{Local: netip.MustParseAddr(from)})
	if err != nil {
		s.t.Fatal(err)
	}
	for range n {
		p.Send(socket, netip.AddrPort{}, append(p.Buffer(), first))
	}
	p.Flush()
}

// TestFilteredIsNotLost asserts that filtered datagrams do not count as lost for lack of room. This holds for each
// filter and reason. The kernel counts both as one.
func TestFilteredIsNotLost(t *testing.T) {
	const impossible = 0x7f
	lost := func(s *shielded) (buffers, unclear uint64) {
		for _, loop := range s.server.Snapshot().Sockets {
			buffers, unclear = buffers+loop.KernelDrops, unclear+loop.FilterDrops
		}
		return buffers, unclear
	}
	for _, loops := range []int{1, 2} {
		s := startShielded(t, loops, bedrock())
		network := netip.MustParsePrefix("127.2.0.0/16")
		s.bans.Add(ratelimit.Ban{Prefix: network, Until: time.Now().Add(time.Hour)})
		s.until("banned", "127.2.0.1", 0x00)
		s.sendRun("127.3.0.1", impossible, 30)
		s.send("127.4.0.1", bytesOf(0x01, 30)...) // beyond the rate of a source
		await.Nil(t, func() error {
			if got := s.judged(); got["rate"] == 0 || got["banned"] == 0 || got["first-byte"] < 30 {
				return fmt.Errorf("the filters judged %v", got)
			}
			return nil
		})
		if buffers, unclear := lost(s); buffers+unclear > 0 {
			t.Errorf("%d loops: the filters dropped %v, of which %d and %d count as lost", loops, s.judged(), buffers, unclear)
		}
	}
	s := startWithKernel(t, 2, proxy.Kernel{Plain: true}, bedrock())
	s.send("127.1.0.1", bytesOf(impossible, 30)...)
	s.send("127.1.0.1", 0x01)
	s.came(1)
	if buffers, unclear := lost(s); buffers != 0 || unclear != 30 {
		t.Errorf("a filter that counts nothing dropped 30, of which %d count as lost and %d as perhaps lost", buffers,
			unclear)
	}
}
