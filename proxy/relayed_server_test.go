package proxy_test

import (
	"bytes"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

// TestRelayOverRealSockets lets go-raknet's client play on go-raknet's server through a route in ModeRelay. The first
// of the two servers does not exist.
func TestRelayOverRealSockets(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			server, _ := gorkServer(t)
			r := startWith(t, b.backend, b.loops, bedrock(), relay.Any, server, func(s *relay.Settings) {
				route := s.Listeners[0].Route
				route.Mode = policy.ModeRelay
				route.Upstream.Servers = []upstream.Target{{Addr: closedPort(t)}, {Addr: server}}
			})
			conn, err := gork.DialTimeout(r.addr.String(), patience)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			want := bytes.Repeat([]byte{0x90}, 5000) // sent in several datagrams
			if _, err := conn.Write(want); err != nil {
				t.Fatal(err)
			}
			if got, err := conn.ReadPacket(); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes came back of %d, %v", len(got), len(want), err)
			}
			snapshot := r.server.Snapshot()
			s := snapshot.Sessions[0]
			if len(snapshot.Sessions) != 1 || !s.Relayed || !s.Established || s.Server != server || s.FromUpstream.Bytes < 5000 {
				t.Errorf("sessions %+v", snapshot.Sessions)
			}
		})
	}
}
