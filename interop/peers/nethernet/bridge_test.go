package nethernet

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
)

// startBridge runs Tidegate before a server of RakNet. Its NetherNet clients need no login.
func startBridge(t *testing.T, server netip.AddrPort, keys string) (netip.AddrPort, *output, *exec.Cmd) {
	t.Helper()
	return runTidegate(t, `
[loop]
count = 2
[admin]
listen = "off"
[raknet]
max_parts = 2000
[[listener]]
name = "bedrock"
address = "%s"
protocols = ["bedrock", "nethernet"]
route = "bedrock"
`+keys+fmt.Sprintf(`
[[route]]
name = "bedrock"
upstream = "bedrock"
[[upstream]]
name = "bedrock"
protocol = "bedrock"
servers = ["%s"]
`, server))
}

// TestWorld: a server of go-raknet sends a player a world of 8 MB at once, which Tidegate gets faster than the player.
func TestWorld(t *testing.T) {
	t.Parallel()
	const chunks, size = 600, 14_000
	chunk := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "chunk %3d ", i), size/10) }
	server := rakserver.Start(t, func(conn *raknet.Conn) {
		if _, err := conn.ReadPacket(); err != nil {
			return
		}
		for i := range chunks {
			_, _ = conn.Write(append([]byte{0xfe}, chunk(i)...)) // an error means that the client is gone
		}
		rakserver.Echo(conn)
	})
	at, _, _ := startBridge(t, server, `identity = "none"`)
	k := newKeys(t)
	k.server = nil // Tidegate makes its own
	p := join(t, k, at.String())
	send(t, p.reliable, []byte("ready"))
	for i := range chunks {
		if got := p.receive(p.got); !bytes.Equal(got, chunk(i)) {
			t.Fatalf("chunk %d came as %d bytes: %.10s", i, len(got), got)
		}
	}
	p.echo(100)
}

// TestBridge plays with pion on a server of go-raknet: ordered messages, large ones, unreliable ones, and the end. In
// mid-game a NAT gives the client another port, which the kernel may give to Tidegate's other loop.
func TestBridge(t *testing.T) {
	t.Parallel()
	const public = "127.0.0.2"
	at, log, _ := startBridge(t, rakserver.Start(t, rakserver.Echo), `identity = "none"
public_addresses = ["`+public+`"]`)
	n := startNATAt(t, at, netip.AddrPortFrom(netip.MustParseAddr(public), at.Port()))
	k := newKeys(t)
	k.server = nil // Tidegate makes its own
	p := join(t, k, at.String())
	p.echo(1000)
	for _, size := range []int{1, 9_999, 10_000, 262_143, 300_000, 700_000} {
		large := bytes.Repeat([]byte("tide"), size/4+1)[:size]
		send(t, p.reliable, large)
		if got := p.receive(p.got); !bytes.Equal(got, large) {
			t.Fatalf("%d bytes became %d", size, len(got))
		}
	}
	await.Until(t, "an unreliable message came back", func() bool {
		send(t, p.unreliable, []byte("perhaps")) // go-raknet echoes it on the ordered channel
		select {
		case m := <-p.got:
			return string(m) == "perhaps"
		case <-time.After(time.Second):
			return false
		}
	})
	for range 2 {
		n.rebind(t)
		p.echo(100)
	}
	if err := p.pc.Close(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the session has ended", func() bool { return strings.Contains(log.String(), "session ended") })
}
