//go:build interop

package nethernet

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/internal/testkit/rakserver"
)

// cloudburst is the library of most servers in Java. Its server echoes each message.
var cloudburst = stack{
	name: "Cloudburst",
	pins: []string{"../pom.xml", "../jars.sha256", "../EdgeCookies.java"},
	install: func(string) [][]string {
		return [][]string{
			{"mvn", "-B", "-ntp", "-q", "dependency:copy-dependencies", "-DoutputDirectory=."},
			{"sha256sum", "--check", "--quiet", "jars.sha256"},
			{"javac", "-cp", "*", "-d", ".", "EdgeCookies.java"},
		}
	},
	line: func(dir string) (string, []string) {
		path := dir + ":" + filepath.Join(dir, "*")
		return "", []string{"java", "-XX:TieredStopAtLevel=1", "-cp", path, "../Cloudburst.java"}
	},
}

func startCloudburst(t *testing.T) netip.AddrPort {
	t.Helper()
	at, err := freeport.Find(loopback.Addr())
	if err != nil {
		t.Fatal(err)
	}
	p := cloudburst.start(t, at.String(), "server")
	p.order("", `{"event":"listening"}`)
	go func() {
		for range p.lines { // it tells each message
		}
	}()
	return at
}

// TestBridgeStacks plays with clients of other authors on servers of RakNet: ordered messages, a large one and an
// unreliable one, until the client closes its connection. Another client of each is killed. All sessions end, within
// 30 s of silence.
func TestBridgeStacks(t *testing.T) {
	for name, start := range map[string]func(*testing.T) netip.AddrPort{
		"go-raknet":  func(t *testing.T) netip.AddrPort { return rakserver.Start(t, rakserver.Echo) },
		"Cloudburst": startCloudburst,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, log, _ := startBridge(t, start(t), `identity = "none"`)
			ended := func() int { return strings.Count(log.String(), "session ended") }
			t.Cleanup(func() { // other tests go on meanwhile
				await.Until(t, "a killed client's session has ended", func() bool { return ended() > len(otherStacks) })
				await.Until(t, "all sessions have ended", func() bool { return ended() == 2*len(otherStacks) })
				if n := strings.Count(log.String(), `"reason":"closed","by":"client"`); n < len(otherStacks)-1 {
					t.Errorf("%d clients have said goodbye: all but werift's should", n)
				}
			})
			for _, s := range otherStacks {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					playOnBridge(t, &s, "http://"+at.String())
				})
			}
		})
	}
}

func playOnBridge(t *testing.T, s *stack, url string) {
	killed, p := s.start(t, url), s.start(t, url)
	killed.order("", "open")
	killed.order("echo 10", "echoed")
	if err := killed.kill(); err != nil {
		t.Fatal(err)
	}
	p.order("", "open")
	p.order(fmt.Sprintf("echo %d", s.messages), "echoed")
	p.order("large 500000", "echoed")
	p.order("perhaps", "echoed")
	if _, err := fmt.Fprintln(p.in, "close"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the client has ended", func() bool {
		select {
		case _, ok := <-p.lines:
			return !ok
		default:
			return false
		}
	})
}
