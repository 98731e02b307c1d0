package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"tidegate/internal/policy"
)

// headed returns a valid file with a protocol on both sides and more keys of its listener and upstream.
func headed(protocol, listener, upstream string) []byte {
	text := strings.ReplaceAll(valid, `"raknet"`, `"`+protocol+`"`)
	text = strings.Replace(text, `route = "arena"`, `route = "arena"`+"\n"+listener, 1)
	return []byte(strings.Replace(text, "servers =", upstream+"\nservers =", 1))
}

func TestProxyProtocol(t *testing.T) {
	c, _, err := Parse("t.toml", headed("raknet", `proxy_protocol_from = ["10.0.0.1", "2001:db8::/32", `+
		`"::ffff:10.1.0.0/112"]`,
		`proxy_protocol = "until_reply"`), known)
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("10.1.0.0/16"),
	}
	if got := Networks(c.Listeners[0].ProxyProtocolFrom); !reflect.DeepEqual(got, want) {
		t.Errorf("networks %v, want %v", got, want)
	}
	if got := c.Upstreams[0].ProxyProtocol; !got.Is(policy.HeadersUntilReply) {
		t.Errorf("proxy_protocol = %q", got)
	}
}

func TestProxyProtocolFaults(t *testing.T) {
	for _, row := range []struct{ name, protocol, listener, upstream, want string }{
		{"trust in everybody", "raknet", `proxy_protocol_from = ["10.0.0.1", "::/0", "x"]`, "",
			`listener[0].proxy_protocol_from[1] = "::/0": want the networks of your own proxies: a trusted proxy can ` +
				`claim any client address` +
				"\n" + `listener[0].proxy_protocol_from[2] = "x": want a prefix, for example "192.0.2.0/24", or an address`},
		{"no list", "raknet", `proxy_protocol_from = "10.0.0.1"`, "",
			`listener[0].proxy_protocol_from = "10.0.0.1": want a list in brackets, each a prefix, for ` +
				`example "192.0.2.0/24", or an address`},
		{"over tcp", "riptide-2.2", "transport = \"tcp\"\nproxy_protocol_from = [\"10.0.0.1\"]",
			"transport = \"tcp\"\nproxy_protocol = \"every\"",
			`listener[0].proxy_protocol_from: want an empty list, or transport = "udp": TCP has no datagrams to carry the ` +
				`headers` +
				"\n" + `upstream[0].proxy_protocol = "every": want "off", or transport = "udp": TCP has no datagrams to ` +
				`carry the headers`},
		{"room in riptide", "riptide-2.2", "", `proxy_protocol = "spp"`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", headed(row.protocol, row.listener, row.upstream), known)
			var got []string
			if err != nil {
				for line := range strings.SplitSeq(err.Error(), "\n") {
					_, fault, _ := strings.Cut(line, ": ")
					got = append(got, fault)
				}
			}
			if strings.Join(got, "\n") != row.want {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), row.want)
			}
		})
	}
}
