//go:build interop

package nethernet

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

// TestServersOfOthers plays with go-raknet and with pion on servers of other authors, whose answers name the addresses
// of a machine.
func TestServersOfOthers(t *testing.T) {
	for _, name := range otherServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := otherServer(name)
			port := ""
			select {
			case port = <-server.start(t).lines:
			case <-time.After(patience):
			}
			echo, err := netip.ParseAddrPort("127.0.0.1:" + port)
			if err != nil {
				t.Fatal(err)
			}
			at, log := startBefore(t, echo, "nat = true")
			conn, _ := dialRakNet(t, at)
			echoRakNet(t, conn, 1000, 10_000, 300_000)
			own := newKeys(t)
			own.server = nil
			p := join(t, own, at.String())
			p.echo(1000)
			_ = conn.Close()
			_ = p.pc.Close()
			await.Until(t, "both sessions have ended", func() bool {
				return strings.Count(log.String(), "session ended") == 2
			})
		})
	}
}
