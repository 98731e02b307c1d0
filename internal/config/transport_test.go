package config

import (
	"maps"
	"strings"
	"testing"
)

func TestTransports(t *testing.T) {
	const riptide = `["riptide-2.2"]`
	server := `protocol = "raknet"`
	for _, row := range []struct{ name, listener, upstream, want string }{
		{"tcp on both sides", riptide + "\ntransport = \"tcp\"", "protocol = \"riptide-2.2\"\ntransport = \"tcp\"", ""},
		{"udp by name", riptide + "\ntransport = \"udp\"", "protocol = \"riptide-2.2\"\ntransport = \"udp\"", ""},
		{"from tcp to udp", riptide + "\ntransport = \"tcp\"", `protocol = "riptide-2.2"`, ""},
		{"unknown", riptide + "\ntransport = \"quic\"", `protocol = "riptide-2.2"`,
			`5:13: listener[0].transport = "quic": want "udp" or "tcp"`},
		{"listener without tcp", "[\"raknet\"]\ntransport = \"tcp\"", server,
			`5:13: listener[0].transport = "tcp": want "udp", or a protocol that supports TCP (riptide-2.0 or ` +
				`riptide-2.2): raknet does not`},
		{"upstream without tcp", `["raknet"]`, server + "\ntransport = \"tcp\"",
			`14:13: upstream[0].transport = "tcp": want "udp", or a protocol that supports TCP (riptide-2.0 or ` +
				`riptide-2.2): raknet does not`},
		{"unknown protocol is no fault of the transport", "[\"moon\"]\ntransport = \"tcp\"", server,
			`4:14: listener[0].protocols[0] = "moon": want "any", "bedrock", "lossy", "mute", "raknet", "riptide-2.0", ` +
				`"riptide-2.2", "rtype" or "rudp"; any other protocol is "any" on a route with mode = "relay"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := strings.Replace(valid, `["raknet"]`, row.listener, 1)
			text = strings.Replace(text, server, row.upstream, 1)
			_, _, err := Parse("t.toml", []byte(text), known)
			want := row.want
			if want != "" {
				want = "t.toml:" + want
			}
			check(t, err, want)
		})
	}
}

func TestOneProtocolOverTCP(t *testing.T) {
	text := strings.Replace(valid, `["raknet"]`, `["riptide-2.0", "riptide-2.2"]`+"\ntransport = \"tcp\"", 1)
	text = strings.Replace(text, `protocol = "raknet"`, `protocol = "riptide-2.2"`, 1)
	text = strings.Replace(text, "[[route]]", "[[route]]\nordered = \"fast\"", 1)
	_, _, err := Parse("t.toml", []byte(text), known)
	check(t, err, `t.toml:4:13: listener[0].protocols = ["riptide-2.0", "riptide-2.2"]: want one protocol: over TCP, `+
		`each protocol needs its own listener, because they frame messages differently`)
}

// TestTransportsShareAPort checks that the same port can be used by UDP and by TCP.
func TestTransportsShareAPort(t *testing.T) {
	listener := func(name, transport string) string {
		return "[[listener]]\nname = \"" + name + "\"\naddress = \"0.0.0.0:7777\"\nprotocols = [\"riptide-2.2\"]\n" +
			"route = \"arena\"\ntransport = \"" + transport + "\"\n"
	}
	rest := strings.Replace(valid[strings.Index(valid, "[[route]]"):], `protocol = "raknet"`, `protocol = "riptide-2.2"`,
		1)
	if _, _, err := Parse("t.toml", []byte(listener("a", "udp")+listener("b", "tcp")+rest), known); err != nil {
		t.Error(err)
	}
	_, _, err := Parse("t.toml", []byte(listener("a", "tcp")+listener("b", "tcp")+rest), known)
	check(t, err, `t.toml:9:11: listener[1].address = "0.0.0.0:7777": want an address and port of its own; `+
		`listener[0] on line 1 takes 0.0.0.0:7777`)
	edge := strings.Replace(listener("b", "udp"), `"riptide-2.2"`, `"nethernet"`, 1)
	edges := maps.Clone(known)
	edges["nethernet"] = Traits{Edge: true, Server: true}
	_, _, err = Parse("t.toml", []byte(listener("a", "tcp")+edge+rest), edges)
	if err == nil || !strings.Contains(err.Error(), `listener[1].address = "0.0.0.0:7777": want an address and port`) {
		t.Errorf("joins of NetherNet at another listener's TCP port: %v", err)
	}
	loop := strings.Replace(rest, "127.0.0.1:19132", "127.0.0.1:7777", 1)
	if _, _, err := Parse("t.toml", []byte(listener("a", "tcp")+loop), known); err != nil {
		t.Errorf("a UDP server beside a TCP listener: %v", err)
	}
}
