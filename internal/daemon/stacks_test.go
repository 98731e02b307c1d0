package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/sandertv/go-raknet"

	"tidegate/codec/nethernet"
	"tidegate/internal/config"
	"tidegate/internal/setup"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	_ "tidegate/internal/testkit/rakserver" // lets clients dial side by side
	"tidegate/proxy"
	"tidegate/ratelimit"
)

// lines are lines of a log.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

const ownAnswers = `
[[listener]]
name = "bedrock"
address = "%s"
protocols = ["bedrock", "nethernet"]
route = "bedrock"
identity = "none"
identity_key = "%s"

[[route]]
name = "bedrock"
upstream = "bedrock"
pong = "upstream"

[[upstream]]
name = "bedrock"
protocol = "bedrock"
servers = ["%s"]
`

// TestOwnJoinsFollow shows what a RakNet server says of itself, also after a reload. It signs with the key that a file
// has at the time. A file without a key changes nothing.
func TestOwnJoinsFollow(t *testing.T) {
	games, err := raknet.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = games.Close() })
	web, err := net.Listen("tcp", games.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Bool
	go func() {
		if c, err := web.Accept(); err == nil {
			asked.Store(true)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		if _ = web.Close(); asked.Load() {
			t.Error("the server, which speaks RakNet, was asked by HTTP")
		}
	})
	at, err := freeport.Find(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "identity.pem")
	key := writeKey(t, file)
	c, _, err := config.Parse("t.toml", fmt.Appendf(nil, ownAnswers, at, file, games.Addr()), setup.Traits())
	if err != nil {
		t.Fatal(err)
	}
	log := make(lines, 100)
	joins := newJoinServers(zerolog.New(log), false)
	t.Cleanup(joins.close)
	settings := setup.Settings(c, 1, setup.NewSecrets())
	joins.prepare(settings, c)
	server, err := proxy.Listen(settings, proxy.Options{Log: zerolog.Nop(), Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Run(t.Context()) }()
	joins.server, joins.bans = server, ratelimit.NewBans(ratelimit.Terms{})
	joins.follow(settings, server.Addrs(), c)
	lists := func(name string) {
		t.Helper()
		games.PongData([]byte("MCPE;" + name + ";2225;1.26.60;3;20;1;World;Creative;"))
		await.Until(t, "the list names "+name, func() bool {
			status, text := body(t)(http.Get("http://" + at.String() + "/v1/join"))
			return status == http.StatusOK && strings.Contains(text, name) // a busy machine asks too often
		})
	}
	lists("Harbour")
	again := setup.Settings(c, 1, setup.NewSecrets())
	joins.prepare(again, c)
	if err := server.Reload(again); err != nil {
		t.Fatal(err)
	}
	joins.follow(again, server.Addrs(), c)
	lists("Lagoon")

	if !signer(t, at).Equal(key) {
		t.Error("not the key of the file")
	}
	for _, tt := range []struct {
		change func()
		level  string
		says   string
	}{
		{func() { key = writeKey(t, file) }, "info", "identity read again"},
		{func() {
			if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "warn", "identity could not be read"},
	} {
		tt.change()
		await.Until(t, "the log says: "+tt.says, func() bool {
			select {
			case line := <-log:
				return strings.Contains(line, tt.says) && strings.Contains(line, `"level":"`+tt.level+`"`)
			default:
				return false
			}
		})
		if !signer(t, at).Equal(key) {
			t.Error("not the key of the file's last good state")
		}
	}
}

// body returns what reads a response.
func body(t *testing.T) func(in *http.Response, err error) (status int, text string) {
	return func(in *http.Response, err error) (int, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = in.Body.Close() }()
		text, err := io.ReadAll(in.Body)
		if err != nil {
			t.Fatal(err)
		}
		return in.StatusCode, string(text)
	}
}

// signer joins, and returns the key that has signed the answer.
func signer(t *testing.T, at netip.AddrPort) *ecdsa.PublicKey {
	t.Helper()
	offer := nethernet.Own{
		Ufrag: "user", Password: "twentyfourlettersanddigit", Setup: "actpass",
		Fingerprints: []nethernet.Fingerprint{{Algorithm: "sha-256", Digest: "AA:BB"}},
	}
	answer := ""
	await.Until(t, "there is an answer", func() (ok bool) {
		url, status := "http://"+at.String()+"/v1/join/1", 0
		status, answer = body(t)(http.Post(url, "application/sdp", bytes.NewReader(offer.Text())))
		return status == http.StatusOK
	})
	d, err := nethernet.ParseDescription([]byte(answer))
	if err != nil {
		t.Fatal(answer, err)
	}
	identity, err := nethernet.ParseIdentity(d.Identity)
	if err != nil {
		t.Fatal(err)
	}
	token, err := nethernet.ParseToken(identity.Token)
	if err != nil {
		t.Fatal(err)
	}
	return token.Key
}

// writeKey writes a new key into a file, and returns its public half.
func writeKey(t *testing.T, file string) *ecdsa.PublicKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return &key.PublicKey
}
