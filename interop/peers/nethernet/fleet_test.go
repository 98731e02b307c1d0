package nethernet

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
)

// TestJoinAtAnotherNode joins over TCP at one node of a fleet, while the datagrams arrive at the other, as behind
// anycast or a router that shares its paths. The session is where the datagrams arrive: relayed, or with a stack.
func TestJoinAtAnotherNode(t *testing.T) {
	for _, mode := range []string{"relay", "terminate"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			server := netip.AddrPort{}
			if mode == "relay" {
				server = startGame(t, k, true).http
			} else {
				k.server = nil // Tidegate's nodes share one
				server = rakserver.Start(t, rakserver.Echo)
			}
			key := filepath.Join(t.TempDir(), "identity.pem")
			der, err := x509.MarshalECPrivateKey(newKeys(t).server)
			if err == nil {
				err = os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			asked, admin, clusters := free(t), free(t), []netip.AddrPort{free(t), free(t)}
			datagrams := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), asked.Port())
			var logs []*output
			for i, at := range []netip.AddrPort{asked, datagrams} {
				log, _ := runTidegateAt(t, at, fmt.Sprintf(`
[admin]
listen = "%s"
[fleet]
node = "node%d"
listen = "%s"
peers = ["%s", "%s"]
secret = "sixteen-letters-and-one"
store = "%s"
follow = true
[[listener]]
name = "bedrock"
address = "%%s"
protocols = ["bedrock", "nethernet"]
route = "bedrock"
public_addresses = ["127.0.0.2"]
identity = "none"
identity_key = "%s"
[[route]]
name = "bedrock"
upstream = "bedrock"
mode = "%s"
[[upstream]]
name = "bedrock"
protocol = "bedrock"
servers = ["%s"]
`, []string{admin.String(), "off"}[i], i, clusters[i], clusters[0], clusters[1], t.TempDir(), key, mode, server))
				logs = append(logs, log)
			}
			await.Until(t, "the nodes know each other", func() bool {
				in, err := http.Get("http://" + admin.String() + "/api/v1/fleet")
				if err != nil {
					return false
				}
				defer func() { _ = in.Body.Close() }()
				text, _ := io.ReadAll(in.Body)
				return strings.Contains(string(text), `"nodes":1,"passed"`)
			})
			p := join(t, k, asked.String())
			p.echo(1000)
			join(t, k, asked.String()).echo(10)
			await.Until(t, "the sessions are known", func() bool {
				return strings.Count(logs[1].String(), "session established") == 2
			})
			if strings.Contains(logs[0].String(), "session established") {
				t.Error("a session is at the node that no datagram has reached")
			}
		})
	}
}
