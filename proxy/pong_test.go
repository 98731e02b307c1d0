package proxy_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy/relay"
)

// TestGoRakNetServerIsListed asserts that a server list sees a go-raknet server's text through the proxy. It sees it
// also during a restart, and then the new text. No session begins, in either mode.
func TestGoRakNetServerIsListed(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { testListed(t, b.backend, b.loops, policy.ModeTerminate) })
		t.Run(b.name+", relayed", func(t *testing.T) { testListed(t, b.backend, b.loops, policy.ModeRelay) })
	}
}

func testListed(t *testing.T, backend netio.Backend, loops int, mode policy.Mode) {
	addr := freeport.Loopback(t).String()
	server := listedServer(t, addr, "MCPE;Arena;844;1.21.111;3;20;1;World;Survival;1;19132;19132;")
	pong := new(relay.Pong)
	r := startWith(t, backend, loops, bedrock(), bedrock(), netip.MustParseAddrPort(addr), func(s *relay.Settings) {
		l := &s.Listeners[0]
		l.Protocols = []codec.Protocol{raknet.New(raknet.Options{SizedPong: true, PongText: pong.Text})}
		l.Pong, l.Route.Pings = pong, relay.Pings{Refresh: 20 * time.Millisecond, Keep: time.Minute, Name: "Tide"}
		l.Route.Mode = mode
	})
	port := r.addr.String()[len("127.0.0.1:"):]
	text := "MCPE;Tide;844;1.21.111;3;20;1;World;Survival;1;" + port + ";" + port + ";"
	awaitListed(t, r.addr, text)
	_ = server.Close()
	for range 5 {
		if got, err := gork.Ping(r.addr.String()); err != nil || string(got) != text {
			t.Fatalf("while the server is away: %q, %v; want %q", got, err, text)
		}
	}
	listedServer(t, addr, "MCPE;Arena;844;1.21.111;0;20;1;World;Survival;1;19132;19132;")
	awaitListed(t, r.addr, "MCPE;Tide;844;1.21.111;0;20;1;World;Survival;1;"+port+";"+port+";")
	if opened := r.server.Snapshot().Counters.Opened; opened > 0 {
		t.Errorf("%d sessions opened", opened)
	}
}

// listedServer starts a go-raknet server with a text for server lists.
func listedServer(t *testing.T, addr, text string) *gork.Listener {
	t.Helper()
	listener, err := gork.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	listener.PongData([]byte(text))
	return listener
}

// awaitListed asks until the answer is text.
func awaitListed(t *testing.T, addr netip.AddrPort, text string) {
	t.Helper()
	await.Nil(t, func() error {
		got, err := gork.PingTimeout(addr.String(), time.Second)
		if err == nil && string(got) != text {
			err = fmt.Errorf("listed as %q, want %q", got, text)
		}
		return err
	})
}
