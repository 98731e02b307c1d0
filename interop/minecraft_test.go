//go:build interop

package interop_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/lossylink"
	"tidegate/internal/testkit/await"
)

// minecraft is a real game: a Dragonfly server, and a player on gophertunnel, the library of most Bedrock programs in
// Go. They have a module of their own, so that ours does not need theirs.
var minecraft = newRuntime(runtime{
	name: "minecraft", version: []string{"go", "version"}, pins: filepath.Join("minecraft", "go.sum"),
	builds: minecraftFiles, install: buildMinecraft, compiled: true,
	line: func(dir string) (env, line []string) { return nil, []string{filepath.Join(dir, "minecraft")} },
})

// minecraftFiles lists the files under peers/ of the game, beside its checksums.
var minecraftFiles = []string{
	"minecraft/go.mod", "minecraft/main.go", "minecraft/server.go", "minecraft/client.go", "minecraft/nethernet.go",
}

// gophertunnelChanges lets this gophertunnel, which is older than NetherNet, do two things. A server with PLAIN in its
// environment does not encrypt, as other servers can be told. A network gets the key of the login.
var gophertunnelChanges = map[string][]string{
	"minecraft/conn.go": {
		"import (\n", "import (\n\t\"os\"\n",
		"\tif err := conn.enableEncryption(authResult.PublicKey); err != nil {\n",
		"\tif os.Getenv(\"PLAIN\") != \"\" {\n\t\treturn conn.handleClientToServerHandshake()\n\t}\n" +
			"\tif err := conn.enableEncryption(authResult.PublicKey); err != nil {\n",
	},
	"minecraft/dial.go": {"\tvar pong []byte\n", "\tctx = context.WithValue(ctx, \"key\", key)\n\tvar pong []byte\n"},
}

// buildMinecraft builds the game with a changed copy of gophertunnel.
func buildMinecraft(dir string) error {
	const module = "github.com/sandertv/gophertunnel"
	find := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	find.Dir = filepath.Join("peers", "minecraft")
	out, err := find.Output()
	if err != nil {
		return fmt.Errorf("find gophertunnel: %w", err)
	}
	changed := filepath.Join(dir, "gophertunnel")
	if err := os.CopyFS(changed, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		return err
	}
	for name, changes := range gophertunnelChanges {
		path := filepath.Join(changed, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i := 0; i < len(changes); i += 2 {
			if bytes.Count(text, []byte(changes[i])) != 1 {
				return fmt.Errorf("%s has not one place like %q", name, changes[i])
			}
		}
		text = []byte(strings.NewReplacer(changes...).Replace(string(text)))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	if err := copyPeerFiles(dir, "minecraft/go.mod", "minecraft/go.sum"); err != nil {
		return err
	}
	if err := command(dir, "go", "mod", "edit", "-replace", module+"="+changed); err != nil {
		return err
	}
	return command(find.Dir, "go", "build", "-modfile", filepath.Join(dir, "go.mod"),
		"-o", filepath.Join(dir, "minecraft"), ".")
}

const (
	// minecraftChunks is the number of chunks that a player sees within 4 chunks around it.
	minecraftChunks = 37
	// minecraftLines is the number of chat lines in each direction.
	minecraftLines = 50
)

// TestMinecraft: a real game logs in through Tidegate and through lossy paths on both sides. The blocks of all chunks
// arrive, and chat arrives in both directions, each line once and in order.
func TestMinecraft(t *testing.T) {
	for _, mode := range []string{"terminate", "relay"} {
		for _, loss := range weathers {
			t.Run(fmt.Sprintf("%s/loss %g%%", mode, 100*loss), func(t *testing.T) {
				t.Parallel()
				playMinecraft(t, mode, loss)
			})
		}
	}
}

func playMinecraft(t *testing.T, mode string, loss float64) {
	server := startServer(t, minecraft, "Dragonfly", "server")
	weather := lossylink.Loss{ToClients: loss, ToServer: loss}
	host, port := lossy(t, "127.0.0.1:0", server.port, weather)
	between := runTidegate(t, minecraftRoute(mode, host+":"+port), 1)
	awaitList(t, between.ports[udp])
	// The client joins at the port that the server list names, so the lossy path has Tidegate's port. The client asks
	// for the list only once.
	weather.Spared = 2
	host, port = lossy(t, "127.0.0.2:"+between.ports[udp], between.ports[udp], weather)
	start := time.Now()
	client := startScript(t, minecraft, "gophertunnel", host+":"+port, "raknet")
	if got := client.awaitWithin(t, "connected", 3*patience).Payload; got != host+":"+port {
		t.Errorf("the client has joined at %s, want %s", got, host+":"+port)
	}
	server.await(t, "joined")
	t.Logf("joined after %v", time.Since(start))
	wantGame(t, client, server, start)
}

// wantGame lets a player get all chunks, chat and leave.
func wantGame(t *testing.T, client, server *peer, start time.Time) {
	t.Helper()
	wantChunks(t, client, server)
	t.Logf("%d chunks after %v", minecraftChunks, time.Since(start))
	wantChat(t, client, server)
	t.Logf("%d lines each way after %v", minecraftLines, time.Since(start))
	client.order(t, order{Do: "leave"})
	server.awaitWithin(t, "left", 2*patience) // a goodbye that is lost shows after 30 s, also without a proxy
}

// TestMinecraftBridge: a player joins by NetherNet, and plays on a server of RakNet. Its login has the key of its join.
// A thief with another's login is refused. A server that encrypts can have no such player, which the player reads.
func TestMinecraftBridge(t *testing.T) {
	for _, c := range []struct{ player, server, refusal string }{
		{"nethernet", "plain", ""},
		{"thief", "plain", "Your login is not that of the player who has joined."},
		{"nethernet", "server", "This server asks for encryption"},
	} {
		t.Run(c.player+" at "+c.server, func(t *testing.T) {
			t.Parallel()
			server := startServer(t, minecraft, "Dragonfly", c.server)
			route := minecraftRoute("terminate", "127.0.0.1:"+server.port)
			both := strings.Replace(route, `["bedrock"]`, `["bedrock", "nethernet"]`, 1)
			between := runTidegate(t, both, 1)
			start := time.Now()
			client := startScript(t, minecraft, "gophertunnel", "127.0.0.1:"+between.ports[udp], c.player)
			if c.refusal != "" {
				if got := client.awaitWithin(t, "refused", 3*patience).Payload; !strings.Contains(got, c.refusal) {
					t.Errorf("the player reads %q, want %q", got, c.refusal)
				}
				return
			}
			client.awaitWithin(t, "connected", 3*patience)
			server.await(t, "joined")
			wantGame(t, client, server, start)
		})
	}
}

// awaitList waits until Tidegate answers server lists with the server's text.
func awaitList(t *testing.T, port string) {
	t.Helper()
	await.Until(t, "the server's text in the list", func() bool {
		text, err := raknet.PingTimeout("127.0.0.1:"+port, patience/100)
		return err == nil && strings.HasPrefix(string(text), "MCPE;Dragonfly;")
	})
}

// minecraftRoute is a configuration whose server list has the server's text.
func minecraftRoute(mode, server string) string {
	return fmt.Sprintf(`
[[listener]]
name = "public"
address = "127.0.0.1:0"
protocols = ["bedrock"]
route = "world"
[[route]]
name = "world"
upstream = "world"
mode = %q
pong = "upstream"
[[upstream]]
name = "world"
protocol = "bedrock"
servers = [%q]
[log]
format = "json"
[admin]
listen = "off"
`, mode, server)
}

// wantChunks checks the blocks of every chunk that the client got.
func wantChunks(t *testing.T, client, server *peer) {
	t.Helper()
	made := make(map[string]string) // hash of the blocks by position
	for range minecraftChunks {
		position, blocks, _ := strings.Cut(server.await(t, "chunk").Payload, " ")
		made[position] = blocks
	}
	for range minecraftChunks {
		position, blocks, _ := strings.Cut(client.await(t, "chunk").Payload, " ")
		if made[position] != blocks {
			t.Errorf("chunk %s has blocks %.8s, want %.8s", position, blocks, made[position])
		}
		delete(made, position)
	}
	if len(made) > 0 {
		t.Errorf("%d of %d chunks did not arrive", len(made), minecraftChunks)
	}
}

// wantChat makes a client and a server chat at the same time. The client also hears its own lines.
func wantChat(t *testing.T, client, server *peer) {
	t.Helper()
	said := func(by string, i int) string {
		return fmt.Sprintf("%s says %d: %s", by, i, strings.Repeat("naïve ", i))
	}
	for i := range minecraftLines {
		client.order(t, order{Do: "send", Payload: hex.EncodeToString([]byte(said("player", i)))})
		server.order(t, order{Do: "send", Payload: hex.EncodeToString([]byte(said("server", i)))})
	}
	wantLines(t, server, func(i int) string { return said("player", i) })
	var own, theirs int
	for range 2 * minecraftLines {
		line, _ := hex.DecodeString(client.await(t, "received").Payload)
		switch string(line) {
		case "<Steve> " + said("player", own):
			own++
		case said("server", theirs):
			theirs++
		default:
			t.Fatalf("the client heard %.40q after %d own lines and %d of the server", line, own, theirs)
		}
	}
}

// wantLines checks that a peer hears each line once and in order.
func wantLines(t *testing.T, p *peer, want func(i int) string) {
	t.Helper()
	for i := range minecraftLines {
		if line, _ := hex.DecodeString(p.await(t, "received").Payload); string(line) != want(i) {
			t.Fatalf("%s: line %d is %.40q, want %.40q", p.name, i, line, want(i))
		}
	}
}
