package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/freeport"
	"tidegate/internal/testkit/rakserver"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/bridge"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
	"tidegate/session"
)

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// running is a proxy on real sockets.
type running struct {
	addr     netip.AddrPort
	settings *relay.Settings
	server   *proxy.Server
	captures *captures.Captures
	stop     context.CancelFunc
	ended    chan error
}

// start runs a proxy with one listener, until the test ends or stop is called.
func start(t *testing.T, backend netio.Backend, loops int, clients, upstreams codec.Protocol,
	to netip.AddrPort) *running {
	t.Helper()
	return startWith(t, backend, loops, clients, upstreams, to, func(*relay.Settings) {})
}

// startWith is start with a function that changes the settings first.
func startWith(t *testing.T, backend netio.Backend, loops int, clients, upstreams codec.Protocol, to netip.AddrPort,
	change func(*relay.Settings)) *running {
	t.Helper()
	route := &relay.Route{
		Name: "arena", Bridge: bridge.Options{Ordered: policy.OrderedFast, PacketID: 0x86, Queue: 8 << 20},
		Upstream: &relay.Upstream{
			Name: "arena", Protocol: upstreams, Servers: []upstream.Target{{Addr: to}},
			Options: upstream.Options{RetryAfter: time.Second},
		},
	}
	settings := &relay.Settings{
		Listeners: []relay.Listener{{
			Name: "play", Addr: freeport.Loopback(t), Protocols: []codec.Protocol{clients}, Route: route,
		}},
		Limits:           session.Limits{Sessions: 100, HalfOpen: 100},
		HandshakeTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, DrainTimeout: 5 * time.Second,
	}
	change(settings)
	server, err := proxy.Listen(settings, proxy.Options{Loops: loops, IO: netio.Options{Backend: backend},
		Log: zerolog.Nop()})
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
	return r
}

// end stops the proxy and waits for its goodbyes.
func (r *running) end(t *testing.T) {
	t.Helper()
	if r.ended == nil {
		return
	}
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("the proxy ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the proxy did not end")
	}
	r.ended = nil
}

// gorkServer starts a go-raknet game server. An even first byte asks for an echo, and an odd one for a double echo.
func gorkServer(t *testing.T) (addr netip.AddrPort, left chan error) {
	t.Helper()
	left = make(chan error, 16)
	return rakserver.Start(t, func(conn *gork.Conn) { left <- echo(conn) }), left
}

func echo(conn *gork.Conn) error {
	for {
		message, err := conn.ReadPacket()
		if err != nil {
			return err
		}
		if message[0]%2 == 1 {
			message = append(bytes.Clone(message), message...)
		}
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}

func bedrock() codec.Protocol {
	return raknet.New(raknet.Options{Name: "bedrock", DialVersion: 11, OrderedOnly: true, SizedPong: true,
		Pong: []byte("MCPE;Tidegate")})
}

var backends = []struct {
	name    string
	backend netio.Backend
	loops   int
}{{"native", netio.Auto, 1}, {"native, two loops", netio.Auto, 2}, {"portable", netio.Portable, 1}}

// TestGoRakNetThroughTheProxy joins an independent client and server, with messages of 500 kB up and 1 MB down.
func TestGoRakNetThroughTheProxy(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			server, left := gorkServer(t)
			r := start(t, b.backend, b.loops, bedrock(), bedrock(), server)
			conn, err := gork.DialTimeout(r.addr.String(), patience)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			rng := rand.New(rand.NewPCG(1, 1))
			for _, size := range []int{1, 100, 1400, 20_000, 500_001, 500_000} {
				exchange(t, conn, rng, size, size == 500_001)
			}
			r.end(t)
			readUntilGone(t, conn)
			select {
			case <-left:
			case <-time.After(patience):
				t.Error("the game server was not told goodbye")
			}
		})
	}
}

// exchange sends a random message and waits for its echo, or its double echo.
func exchange(t *testing.T, conn *gork.Conn, rng *rand.Rand, size int, double bool) {
	t.Helper()
	message := make([]byte, size)
	for i := range message {
		message[i] = byte(rng.Uint32())
	}
	message[0] = 0xfe
	want := message
	if double {
		message[0] = 0xff
		want = append(bytes.Clone(message), message...)
	}
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	got, err := readWithin(conn, patience)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes: %d came back, want %d; %v", size, len(got), len(want), err)
	}
}

// readWithin reads a message. go-raknet has no deadlines.
func readWithin(conn *gork.Conn, limit time.Duration) ([]byte, error) {
	type result struct {
		message []byte
		err     error
	}
	results := make(chan result, 1)
	go func() {
		message, err := conn.ReadPacket()
		results <- result{message, err}
	}()
	select {
	case r := <-results:
		return r.message, r.err
	case <-time.After(limit):
		return nil, errors.New("nothing came in time")
	}
}

func readUntilGone(t *testing.T, conn *gork.Conn) {
	t.Helper()
	if message, err := readWithin(conn, patience); err == nil || err.Error() == "nothing came in time" {
		t.Errorf("after the proxy's end: %d bytes, %v; want the connection to be closed", len(message), err)
	}
}

func TestPingIsAnsweredAtTheEdge(t *testing.T) {
	r := start(t, netio.Auto, 1, bedrock(), bedrock(), netip.MustParseAddrPort("127.0.0.1:1"))
	pong, err := gork.Ping(r.addr.String())
	if err != nil || string(pong) != "MCPE;Tidegate" {
		t.Fatalf("pong = %q, %v", pong, err)
	}
}

// TestNobodyListensUpstream asserts that a client whose server refuses is told within the server's share of the
// handshake's time. The client's own time-out would be much longer.
func TestNobodyListensUpstream(t *testing.T) {
	patient := riptide.New(riptide.Options{TimeoutTime: time.Minute, MaxAttempts: 60})
	r := start(t, netio.Auto, 1, patient, patient, closedPort(t))
	client := dialUDP(t, patient, r.addr)
	if ev := client.await(codec.Disconnected); ev.Reason != codec.NoConnection {
		t.Errorf("told %v, want no-connection", ev.Reason)
	}
}

// TestUpstreamIsKilled asserts that refusals of its host show the death of a game server without a goodbye.
func TestUpstreamIsKilled(t *testing.T) {
	patient := riptide.New(riptide.Options{TimeoutTime: time.Minute})
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	server := &udpPeer{t: t, socket: socket}
	r := start(t, netio.Auto, 1, patient, patient, socket.LocalAddr().(*net.UDPAddr).AddrPort())
	client := dialUDP(t, patient, r.addr)
	client.flush()
	server.accept(patient)
	server.await(codec.Asked)
	server.conn.Admit(time.Now(), 1)
	server.flush()
	client.await(codec.Connected)
	server.await(codec.Connected)
	_ = socket.Close()
	if ev := client.await(codec.Disconnected); ev.Reason != codec.ServerStopped {
		t.Errorf("told %v, want server-stopped", ev.Reason)
	}
}

func closedPort(t *testing.T) netip.AddrPort {
	listener, err := gork.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(listener.Addr().String())
	_ = listener.Close()
	return addr
}

func TestListenSaysWhatItCouldNotBind(t *testing.T) {
	for _, loops := range []int{1, 2} {
		r := start(t, netio.Auto, loops, bedrock(), bedrock(), anyPort)
		route := &relay.Route{Upstream: &relay.Upstream{Protocol: bedrock(), Servers: []upstream.Target{{Addr: anyPort}}}}
		_, err := proxy.Listen(&relay.Settings{
			Listeners: []relay.Listener{
				{Name: "second", Addr: r.addr, Protocols: []codec.Protocol{bedrock()}, Route: route},
			},
		}, proxy.Options{Loops: loops})
		if err == nil || !strings.Contains(err.Error(), "listener second: listen on "+r.addr.String()) {
			t.Errorf("%d loops: err = %v, want one that names listener and address", loops, err)
		}
	}
}
