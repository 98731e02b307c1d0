package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// TestServers checks lists that mix addresses and tables.
func TestServers(t *testing.T) {
	text := strings.Replace(valid, `servers = ["127.0.0.1:19132"]`,
		`servers = ["10.0.0.5:19132", { address = "10.0.0.6:19132", weight = 2 }, { max_sessions = 3, address = `+
			`"[::1]:1" }]`, 1)
	c, _, err := Parse("t.toml", []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.0.0.5:19132", "10.0.0.6:19132", "[::1]:1"}
	var got []string
	for _, s := range c.Upstreams[0].Servers {
		got = append(got, s.String())
	}
	weights := [3][2]int{}
	for i, s := range c.Upstreams[0].Servers {
		weights[i] = [2]int{s.Weight, s.MaxSessions}
	}
	if !reflect.DeepEqual(got, want) || weights != [3][2]int{{1, 0}, {2, 0}, {1, 3}} {
		t.Errorf("servers %v, weights and bounds %v", got, weights)
	}
}

func TestSelfForwarding(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}
	const circle = `t.toml:14:12: upstream[0].servers[0] = "SERVER": want a game server; this address is the ` +
		`machine's own, ` +
		`so its datagrams reach listener[0] on line 1 of Tidegate itself`
	for _, row := range []struct {
		listener, server, transport string
		circle                      bool
	}{
		{"0.0.0.0:7777", "192.0.2.7:7777", "udp", true},
		{"[::]:7777", "192.0.2.7:7777", "udp", true},
		{"[::]:7777", "[2001:db8::7]:7777", "udp", true},
		{"[::]:7777", "[::ffff:192.0.2.7]:7777", "udp", true},
		{"0.0.0.0:7777", "[2001:db8::7]:7777", "udp", false}, // the server takes IPv4 only
		{"0.0.0.0:7777", "192.0.2.7:7778", "udp", false},
		{"0.0.0.0:7777", "192.0.2.8:7777", "udp", false},
		{"192.0.2.9:7777", "192.0.2.7:7777", "udp", false},
		{"0.0.0.0:7777", "192.0.2.7:7777", "tcp", false}, // the listener takes datagrams only
	} {
		text := strings.Replace(valid, "0.0.0.0:7777", row.listener, 1)
		text = strings.Replace(text, "127.0.0.1:19132", row.server, 1)
		c, _, err := Parse("t.toml", []byte(text), known)
		if err != nil {
			t.Fatal(err)
		}
		c.Upstreams[0].Transport = Transport(row.transport)
		want := ""
		if row.circle {
			want = strings.Replace(circle, "SERVER", row.server, 1)
		}
		check(t, c.CheckSelfForwarding(own), want)
		server := netip.MustParseAddrPort(row.server)
		if c.MayServe(&c.Upstreams[0], server, own) == row.circle {
			t.Errorf("listener %s, discovered %s over %s: may serve %v", row.listener, server, row.transport, row.circle)
		}
	}
}

// TestDiscoveredAddresses tries addresses that are not of one machine.
func TestDiscoveredAddresses(t *testing.T) {
	c, _, err := Parse("t.toml", []byte(valid), known)
	if err != nil {
		t.Fatal(err)
	}
	for addr, may := range map[string]bool{
		"10.0.0.5:19132": true, "[2001:db8::1]:19132": true, "0.0.0.0:19132": false, "[::]:19132": false,
		"224.0.0.1:19132": false, "[ff02::1]:19132": false, "255.255.255.255:19132": false, "10.0.0.5:0": false,
		"127.0.0.1:7777": false, "[::ffff:224.0.0.1]:19132": false,
	} {
		if got := c.MayServe(&c.Upstreams[0], netip.MustParseAddrPort(addr), nil); got != may {
			t.Errorf("%s may serve: %v, want %v", addr, got, may)
		}
	}
}
