package setup

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/testkit/await"
	"tidegate/proxy"
)

// ported is a configuration with a range of ports, and game servers at their own ports.
const ported = `
[[listener]]
name = "many"
address = "127.0.0.1:%d-%d"
protocols = ["any"]
route = "games"
[[listener]]
name = "one"
address = "127.0.0.1:0"
protocols = ["any"]
route = "single"
[[route]]
name = "games"
upstream = "games"
mode = "relay"
[[route]]
name = "single"
upstream = "single"
mode = "relay"
[[upstream]]
name = "games"
protocol = "any"
servers = ["127.0.0.2:%d-%d"]
[[upstream]]
name = "single"
protocol = "any"
servers = ["127.0.0.2:%d"]
`

// freePorts finds n free consecutive ports of an address and returns the first. It binds them for a moment.
func freePorts(t *testing.T, ip string, n int) (int, []*net.UDPConn) {
	t.Helper()
	for range 100 {
		first, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip)})
		if err != nil {
			t.Fatal(err)
		}
		all, port := []*net.UDPConn{first}, first.LocalAddr().(*net.UDPAddr).Port
		for i := 1; i < n; i++ {
			if next, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip), Port: port + i}); err == nil {
				all = append(all, next)
			}
		}
		if len(all) == n {
			return port, all
		}
		for _, conn := range all {
			_ = conn.Close()
		}
	}
	t.Fatal("no free ports in a row")
	return 0, nil
}

// TestPortsLeadOneToOne checks that clients of a listener's n-th port reach the servers' n-th port.
func TestPortsLeadOneToOne(t *testing.T) {
	const n = 5
	servers, games := freePorts(t, "127.0.0.2", n)
	for _, g := range games {
		defer func() { _ = g.Close() }()
	}
	port, taken := freePorts(t, "127.0.0.1", n)
	for _, conn := range taken {
		_ = conn.Close()
	}
	text := fmt.Sprintf(ported, port, port+n-1, servers, servers+n-1, servers)
	c, warnings, err := config.Parse("t.toml", []byte(text), Traits())
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	s := Settings(c, 2, NewSecrets())
	server, err := proxy.Listen(s, proxy.Options{Loops: 2, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(t.Context()) }()
	t.Cleanup(func() { // when the context is done
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if got := len(server.Addrs()); got != n+1 {
		t.Fatalf("%d listeners, want %d", got, n+1)
	}
	for i, g := range games {
		client, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port + i})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		want := fmt.Sprint("to port ", i)
		if _, err := client.Write([]byte(want)); err != nil {
			t.Fatal(err)
		}
		_ = g.SetReadDeadline(time.Now().Add(await.Patience))
		b := make([]byte, 100)
		k, err := g.Read(b)
		if err != nil || string(b[:k]) != want {
			t.Fatalf("server %d heard %q, %v", i, b[:k], err)
		}
	}
	names := map[string]bool{}
	for _, l := range s.Listeners {
		names[l.Name+" "+l.Route.Name+" "+l.Route.Upstream.Name] = true
	}
	for _, want := range []string{
		"many games games", fmt.Sprintf("many games:%d games:%d", servers+1, servers+1), "one single single",
	} {
		if !names[want] {
			t.Errorf("want a listener, route and upstream %s among %v", want, names)
		}
	}
}
