package setup

import (
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/internal/config"
	"tidegate/internal/proxyproto"
)

// TestHeadersLeaveRoom: what a RakNet server is probed with fits into the largest packet with its header.
func TestHeadersLeaveRoom(t *testing.T) {
	const overhead = 20 + 8 // of IPv4 and UDP
	for option, header := range map[string]int{"": 0, `proxy_protocol = "first"`: proxyproto.MaxLen, `proxy_protocol = "spp"`: proxyproto.MaxLen} {
		text := pinged + `"configured"` + strings.Replace(pingedUpstream, "servers", option+"\nservers", 1)
		c, _, err := config.Parse("t.toml", []byte(text), Traits())
		if err != nil {
			t.Fatal(err)
		}
		u := Settings(c, 1).Listeners[0].Route.Upstream
		conn := u.Protocol.Dial(time.Time{}, c.Upstreams[0].Servers[0].Address.AddrPort, codec.Hello{})
		probe, _ := conn.Transmit(time.Time{}, nil)
		want := int(c.Options["bedrock"].(*raknet.Settings).MaxMTU)
		if got := len(probe) + overhead + header; got != want {
			t.Errorf("%s: the first packet has %d bytes with its header, want %d", option, got, want)
		}
		if u.Headers.Len() != header {
			t.Errorf("%s: headers of %d bytes", option, u.Headers.Len())
		}
	}
}
