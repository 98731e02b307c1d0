package setup

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/proxyproto"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// pinged is a configuration for Bedrock players. The test inserts the source of its server list texts.
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
[raknet]
pong = "configured"
[limits]
ping_answers = 1000
`

func TestServerListSettings(t *testing.T) {
	asked := relay.Pings{Refresh: 2 * time.Second, Keep: 10 * time.Second, Name: "Tide", Beside: true}
	for _, row := range []struct {
		source string
		pings  relay.Pings
	}{
		{`"configured"`, relay.Pings{}},
		{`"auto"`, relay.Pings{Beside: true}},
		{`"upstream"`, asked}, {"\"auto\"\nmode = \"relay\"", asked},
	} {
		c, warnings, err := config.Parse("t.toml", []byte(pinged+row.source+pingedUpstream), Traits())
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		s := Settings(c, 4, NewSecrets())
		l := &s.Listeners[0]
		if l.Route.Pings != row.pings || (l.Pong != nil) != (row.pings.Refresh > 0) {
			t.Errorf("%s: %+v, listener's text %v", row.source, l.Route.Pings, l.Pong)
		}
		if want := (ratelimit.Rates{Overall: 250, Network: 5}); s.Answers != want {
			t.Errorf("%s: answers %+v, want %+v of each of four loops", row.source, s.Answers, want)
		}
		from := netip.MustParseAddrPort("192.0.2.1:5000")
		_, reply, _ := l.Protocols[0].Accept(time.Time{}, from, raknet.AppendPing(nil, 1, 2), nil)
		if pong, err := raknet.ParsePong(reply); err != nil || string(pong.Data) != "configured" {
			t.Errorf("%s: %q, %v", row.source, pong.Data, err)
		}
	}
}

// TestServerSocketSettings checks that sockets to servers ask for half of a listener's buffer.
func TestServerSocketSettings(t *testing.T) {
	text := pinged + `"configured"` + pingedUpstream
	for stated, want := range map[string]int{"": 1 << 20, "[loop]\nreceive_buffer = \"8MiB\"\n": 4 << 20} {
		c, _, err := config.Parse("t.toml", []byte(stated+text), Traits())
		if err != nil {
			t.Fatal(err)
		}
		if got := Settings(c, 1, NewSecrets()).Listeners[0].Route.Upstream.Transport.ReceiveBuffer; got != want {
			t.Errorf("%q: sockets ask for %d bytes, want %d", stated, got, want)
		}
	}
}

// TestQueriesAreForAny: only listeners of any protocol on a relay answer server browsers, and not if the operator wants
// the servers to.
func TestQueriesAreForAny(t *testing.T) {
	for _, row := range []struct {
		protocol, source string
		want             bool
	}{{"any", "auto", true}, {"any", "upstream", true}, {"any", "configured", false}, {"bedrock", "auto", false}} {
		text := pinged + `"` + row.source + "\"\nmode = \"relay\"" + pingedUpstream
		text = strings.ReplaceAll(text, `"bedrock"`, `"`+row.protocol+`"`)
		c, _, err := config.Parse("t.toml", []byte(text), Traits())
		if err != nil {
			t.Fatal(err)
		}
		if got := Settings(c, 1, NewSecrets()).Listeners[0].Queries != nil; got != row.want {
			t.Errorf("%s with pong = %q: %v", row.protocol, row.source, got)
		}
	}
}

// TestHeadersLeaveRoom checks that a RakNet server's MTU probe plus its PROXY header fits into the largest packet.
func TestHeadersLeaveRoom(t *testing.T) {
	const overhead = 20 + 8 // IPv4 and UDP headers
	for option, header := range map[string]int{
		"": 0, `proxy_protocol = "first"`: proxyproto.MaxLen, `proxy_protocol = "spp"`: proxyproto.MaxLen,
	} {
		text := pinged + `"configured"` + strings.Replace(pingedUpstream, "servers", option+"\nservers", 1)
		c, _, err := config.Parse("t.toml", []byte(text), Traits())
		if err != nil {
			t.Fatal(err)
		}
		u := Settings(c, 1, NewSecrets()).Listeners[0].Route.Upstream
		conn := u.Protocol.Dial(time.Time{}, c.Upstreams[0].Servers[0].Address.AddrPort, codec.Hello{})
		probe, _ := conn.Transmit(time.Time{}, nil)
		want := int(c.Options["raknet"].(*protocols.RakNetSettings).MaxMTU)
		if got := len(probe) + overhead + header; got != want {
			t.Errorf("%s: the first packet has %d bytes with its header, want %d", option, got, want)
		}
		if relay.HeaderLen(u.Headers) != header {
			t.Errorf("%s: headers of %d bytes", option, relay.HeaderLen(u.Headers))
		}
	}
}

// TestVerdictsHaveTheirWords checks that each word of a verdict in the configuration is that of package ratelimit.
func TestVerdictsHaveTheirWords(t *testing.T) {
	for _, words := range [][]string{
		config.LimitVerdict("").Choices(), config.FilterVerdict("").Choices(), config.AccessVerdict("").Choices(),
	} {
		for i, word := range words {
			if v := ratelimit.Verdict(i); v != ratelimit.Pass && v.String() != word {
				t.Errorf("%q is written %q", word, v)
			}
		}
	}
	if got := config.FilterVerdict("").Value(); ratelimit.Verdict(got) != ratelimit.Pass {
		t.Errorf("no word is %v", got)
	}
}

// TestBadCertificate refuses a certificate that cannot be used, before a reload or a start.
func TestBadCertificate(t *testing.T) {
	c := &config.Config{Listeners: []config.Listener{{
		Name: "bedrock", TLSCertificate: filepath.Join(t.TempDir(), "missing.pem"), TLSKey: "key.pem",
	}}}
	if err := CheckMachine(c); err == nil || !strings.Contains(err.Error(), "listener bedrock: tls_certificate: read") {
		t.Error(err)
	}
}
