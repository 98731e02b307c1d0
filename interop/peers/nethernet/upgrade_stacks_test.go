//go:build interop

package nethernet

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
)

// TestOtherStacksOverUpgrade replaces the program while clients of other authors play: at an edge, every message comes
// back once and in order, also after a NAT has given the client another port at the successor. At a bridge, the client
// is told to join again, which it can.
func TestOtherStacksOverUpgrade(t *testing.T) {
	for _, s := range otherStacks {
		t.Run(s.name+" at an edge", func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			k.client = nil // the client makes its own
			const public = "127.0.0.2"
			at, log, command := startTidegate(t, startGame(t, k, true).http, public)
			n := startNATAt(t, at, netip.AddrPortFrom(netip.MustParseAddr(public), at.Port()))
			p := s.start(t, "http://"+at.String())
			p.order("", "open")
			p.order("echo 100", "echoed")
			if _, err := fmt.Fprintf(p.in, "echo %d\n", s.messages); err != nil {
				t.Fatal(err)
			}
			if err := command.Process.Signal(syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
			p.order("", "echoed")
			tookOver(t, log)
			p.order("echo 100", "echoed")
			n.rebind(t)
			p.order("echo 100", "echoed")
			if n := strings.Count(log.String(), "session established"); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
		t.Run(s.name+" at a bridge", func(t *testing.T) {
			t.Parallel()
			at, log, command := startBridge(t, rakserver.Start(t, rakserver.Echo), `identity = "none"`)
			p := s.start(t, "http://"+at.String())
			p.order("", "open")
			p.order("echo 100", "echoed")
			if err := command.Process.Signal(syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
			p.order("", "told")
			tookOver(t, log)
			again := s.start(t, "http://"+at.String())
			again.order("", "open")
			again.order("echo 100", "echoed")
		})
	}
}

func tookOver(t *testing.T, log *output) {
	t.Helper()
	await.Until(t, "the successor has taken over", func() bool { return strings.Contains(log.String(), "took over") })
}
