package proxy_test

import (
	"net/netip"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// TestBanReachesEveryLoop asserts that a ban ends the sessions of independent players over real sockets. They cannot
// return before the ban ends.
func TestBanReachesEveryLoop(t *testing.T) {
	const players = 4
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			server, _ := gorkServer(t)
			r := start(t, b.backend, b.loops, bedrock(), bedrock(), server)
			gone := make(chan error, players)
			for range players {
				conn, err := gork.DialTimeout(r.addr.String(), patience)
				if err != nil {
					t.Fatal(err)
				}
				echoed(t, conn)
				go func() { _, err := conn.ReadPacket(); gone <- err }()
			}
			home := netip.MustParsePrefix("127.0.0.0/8")
			r.server.Bans().Add(ratelimit.Ban{Prefix: home, Until: time.Now().Add(time.Hour)})
			for range players {
				select {
				case <-gone:
				case <-time.After(patience):
					t.Fatal("a banned player goes on playing")
				}
			}
			if _, err := gork.DialTimeout(r.addr.String(), 300*time.Millisecond); err == nil {
				t.Error("a banned player came back")
			}
			if r.server.Snapshot().Counters.Drops[stats.DropBanned] == 0 {
				t.Error("nothing was counted")
			}
			r.server.Bans().Remove(home)
			conn, err := gork.DialTimeout(r.addr.String(), patience)
			if err != nil {
				t.Fatalf("after the ban was lifted: %v", err)
			}
			echoed(t, conn)
			_ = conn.Close()
		})
	}
}

// echoed sends a message and waits for the server's echo. A go-raknet server races with itself if it closes before
// its game has answered a player.
func echoed(t *testing.T, conn *gork.Conn) {
	t.Helper()
	if _, err := conn.Write([]byte{0x86}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ReadPacket(); err != nil {
		t.Fatal(err)
	}
}
