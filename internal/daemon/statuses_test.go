package daemon

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec/raknet"
	"tidegate/internal/config"
	"tidegate/internal/setup"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy"
	"tidegate/ratelimit"
)

const edgeUpstream = `
[[listener]]
name = "bedrock"
address = "%s"
protocols = ["bedrock", "nethernet"]
route = "bedrock"

[[route]]
name = "bedrock"
upstream = "bedrock"
mode = "relay"

[[upstream]]
name = "bedrock"
protocol = "bedrock"
`

const twoStatuses = edgeUpstream + `servers = ["%s", "%s"]
health = "http"
health_interval = "100ms"
`

// TestStatuses asks two servers that speak NetherNet alone. An older client sees their sum in its server list. A server
// that has gone is down, and counts no longer.
func TestStatuses(t *testing.T) {
	serve := func(text string) (*httptest.Server, string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/join" || r.Method != http.MethodGet {
				http.NotFound(w, r)
				return
			}
			_, _ = fmt.Fprint(w, text)
		}))
		t.Cleanup(s.Close)
		return s, s.Listener.Addr().String()
	}
	_, one := serve(`{"name":"Harbour","protocol":2193,"version":"1.26.51","level":"w","players":3,"maxPlayers":20}`)
	second, two := serve(`{"name":"Other","players":4,"maxPlayers":10}`)
	at, err := freeport.Find(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Parse("t.toml", []byte(fmt.Sprintf(twoStatuses, at, one, two)), setup.Traits())
	if err != nil {
		t.Fatal(err)
	}
	settings := setup.Settings(c, 1, setup.NewSecrets())
	joins := newJoinServers(zerolog.Nop(), false)
	joins.prepare(settings, c)
	server, err := proxy.Listen(settings, proxy.Options{Log: zerolog.Nop(), Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Run(t.Context()) }()
	joins.server, joins.bans = server, ratelimit.NewBans(ratelimit.Terms{})
	joins.follow(settings, server.Addrs(), c)
	t.Cleanup(joins.close)
	client, err := net.Dial("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	lists := func(want string) {
		t.Helper()
		await.Nil(t, func() error {
			if _, err := client.Write(raknet.AppendPing(nil, 7, 8)); err != nil {
				return err
			}
			_ = client.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			b := make([]byte, 2048)
			n, err := client.Read(b)
			if err != nil {
				return err
			}
			pong, err := raknet.ParsePong(b[:n])
			if err != nil || pong.Time != 7 || !strings.HasPrefix(string(pong.Data), want) {
				return fmt.Errorf("%q, %w", pong.Data, err)
			}
			return nil
		})
	}
	lists("MCPE;Harbour;2193;1.26.51;7;30;")
	second.Close()
	await.Until(t, "the closed server is down", func() bool {
		servers := server.Upstreams()[0].Servers
		return servers[1].State.String() == "down" && servers[1].Cause == "refused" && servers[0].State.String() == "up"
	})
	lists("MCPE;Harbour;2193;1.26.51;3;20;")
}
