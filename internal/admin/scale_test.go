package admin

import (
	"context"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
	"tidegate/session"
)

// manySessions is a Relay with many sessions and no loop. Its datagrams are lost.
type manySessions struct {
	*fakeProxy
	relay    *relay.Relay
	listener *socket
	last     *socket // last dialed
	now      time.Time
}

type socket struct {
	netio.Socket
	addr  netip.AddrPort
	owner any
}

func (s *socket) Addr() netip.AddrPort { return s.addr }
func (s *socket) Owner() any           { return s.owner }
func (s *socket) SetOwner(owner any)   { s.owner = owner }

func (c *manySessions) Dial(netip.AddrPort, netio.SocketOptions) (netio.Socket, error) {
	c.last = &socket{}
	return c.last, nil
}

func (c *manySessions) DialStream(netip.AddrPort, netio.StreamOptions) (netio.Socket, error) {
	return c.Dial(netip.AddrPort{}, netio.SocketOptions{})
}

func (c *manySessions) Buffer() []byte                                 { return nil }
func (c *manySessions) Send(netio.Socket, netip.AddrPort, []byte)      {}
func (c *manySessions) Forward(netio.Socket, netip.AddrPort, []byte)   {}
func (c *manySessions) Figures(context.Context) (relay.Figures, error) { return c.relay.Figures(), nil }

// newManySessions establishes the given number of sessions.
func newManySessions(sessions int) *manySessions {
	server := netip.MustParseAddrPort("10.1.0.1:19132")
	c := &manySessions{
		fakeProxy: newFake("").proxy,
		listener:  &socket{addr: netip.MustParseAddrPort("10.0.0.1:7777")},
		now:       time.Unix(1e9, 0),
	}
	c.relay = relay.New(&relay.Settings{
		Listeners: []relay.Listener{{
			Name: "play", Addr: c.listener.addr, Protocols: []codec.Protocol{relay.Any},
			Route: &relay.Route{Name: "arena", Mode: policy.ModeRelay, Upstream: &relay.Upstream{
				Name: "arena", Protocol: relay.Any, Servers: []upstream.Target{{Addr: server}},
			}},
		}},
		Limits:           session.Limits{Sessions: sessions, HalfOpen: sessions},
		HandshakeTimeout: time.Hour, IdleTimeout: time.Hour,
	}, relay.Options{Log: zerolog.Nop()}, c, c.now)
	c.relay.Attach(0, c.listener)
	for i := range sessions {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), uint16(5000+i>>16))
		c.relay.Receive(c.now, c.listener, client, []byte("hello"))
		c.relay.Receive(c.now, c.last, server, []byte("hello"))
		c.relay.Receive(c.now, c.listener, client, []byte("play"))
	}
	return c
}

// scrape returns the size and the shortest time of several scrapes.
func (c *manySessions) scrape(t *testing.T) (size int, took time.Duration) {
	t.Helper()
	f := newFake("")
	s := New(
		Options{Proxy: c, Version: "1.2.3", Log: zerolog.Nop(), Reload: f.Reload, Reloads: f.Reloads, Config: f.Config},
	)
	f.Server = s
	took = time.Hour
	for range 5 {
		start := time.Now()
		answer := f.ask("GET", "/metrics", "")
		took = min(took, time.Since(start))
		want(t, answer, 200, `tidegate_sessions{listener="play",protocol="any",state="established"} `)
		text, _ := io.ReadAll(answer.Body)
		size = len(text)
	}
	return size, took
}

// TestScrapeOfManySessions checks that 50,000 sessions make a scrape hardly larger and no slower.
func TestScrapeOfManySessions(t *testing.T) {
	few, many := newManySessions(10), newManySessions(50_000)
	want(t, (&fake{Server: New(Options{Proxy: many, Reloads: func() Reloads { return Reloads{} }, Log: zerolog.Nop()})}).
		ask("GET", "/metrics", ""), 200, `state="established"} 50000`)
	size, took := few.scrape(t)
	largeSize, longTook := many.scrape(t)
	t.Logf("10 sessions: %d bytes in %v; 50,000: %d bytes in %v", size, took, largeSize, longTook)
	if largeSize > size+size/10 {
		t.Errorf("%d bytes with 50,000 sessions, %d with 10", largeSize, size)
	}
	if longTook > 10*took {
		t.Errorf("it takes %v with 50,000 sessions, %v with 10", longTook, took)
	}
	n := allocs.PerRun(20, func() { many.relay.Figures() })
	if of := allocs.PerRun(20, func() { few.relay.Figures() }); n != of {
		t.Errorf("a Relay allocates %v times for 50,000 sessions, %v for 10", n, of)
	}
}

// BenchmarkLive measures one round of the live figures with 10,000 sessions: the Relay's share, the rates, and the
// event for all streams. A round is due each second.
func BenchmarkLive(b *testing.B) {
	c := newManySessions(10_000)
	var m meter
	now, size := c.now, 0
	b.ReportAllocs()
	for b.Loop() {
		figures := c.relay.Figures()
		now = now.Add(time.Second)
		size = len(event("live", m.read(now, &figures)))
	}
	b.ReportMetric(float64(size), "B/event")
}
