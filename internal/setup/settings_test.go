package setup

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/codec/raknet"
	"tidegate/internal/config"
	"tidegate/proxy"
	"tidegate/ratelimit"
)

// pinged is a configuration for players of Bedrock, with its route's source of texts to be filled in.
const pinged = `
[[listener]]
name = "public"
address = "127.0.0.1:0"
protocols = ["bedrock"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
pong_name = "Tide"
pong = `

const pingedUpstream = `
[[upstream]]
name = "arena"
protocol = "bedrock"
servers = ["127.0.0.1:19132"]
[bedrock]
pong = "configured"
[limits]
ping_answers = 1000
ping_answers_per_network = 1
`

func TestServerListSettings(t *testing.T) {
	for _, row := range []struct {
		source string
		pings  proxy.Pings
	}{
		{`"configured"`, proxy.Pings{}},
		{`"auto"`, proxy.Pings{}},
		{`"upstream"`, proxy.Pings{Refresh: 2 * time.Second, Keep: time.Minute, Name: "Tide"}},
		{"\"auto\"\nmode = \"relay\"", proxy.Pings{Refresh: 2 * time.Second, Keep: time.Minute, Name: "Tide"}},
	} {
		c, warnings, err := config.Parse("t.toml", []byte(pinged+row.source+pingedUpstream), Traits())
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		s := Settings(c, 4)
		l := &s.Listeners[0]
		if l.Route.Pings != row.pings || (l.Pong != nil) != (row.pings.Refresh > 0) {
			t.Errorf("%s: %+v, listener's text %v", row.source, l.Route.Pings, l.Pong)
		}
		if want := (ratelimit.Rates{Overall: 250, Network: 1}); s.Answers != want {
			t.Errorf("%s: answers %+v, want %+v of each of four loops", row.source, s.Answers, want)
		}
		from := netip.MustParseAddrPort("192.0.2.1:5000")
		_, reply, _ := l.Protocols[0].Accept(time.Time{}, from, raknet.AppendPing(nil, 1, 2), nil)
		if pong, err := raknet.ParsePong(reply); err != nil || string(pong.Data) != "configured" {
			t.Errorf("%s: %q, %v", row.source, pong.Data, err)
		}
	}
}

// TestServerSocketSettings: the receive buffer of an upstream is that of its sockets; other upstreams keep the default.
func TestServerSocketSettings(t *testing.T) {
	text := pinged + `"configured"` + pingedUpstream
	for stated, want := range map[string]int{"": 1 << 20, "receive_buffer = \"4MiB\"\n": 4 << 20} {
		changed := strings.Replace(text, "[[upstream]]\n", "[[upstream]]\n"+stated, 1)
		c, _, err := config.Parse("t.toml", []byte(changed), Traits())
		if err != nil {
			t.Fatal(err)
		}
		if got := Settings(c, 1).Listeners[0].Route.Upstream.Transport.ReceiveBuffer; got != want {
			t.Errorf("%q: sockets ask for %d bytes, want %d", stated, got, want)
		}
	}
}
