package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"tidegate/internal/testkit/await"
)

// issuer signs accounts and users of NATS for a test.
type issuer struct {
	t    *testing.T
	key  nkeys.KeyPair
	name string // public key
}

func newIssuer(t *testing.T, make func() (nkeys.KeyPair, error)) *issuer {
	t.Helper()
	key, err := make()
	if err != nil {
		t.Fatal(err)
	}
	name, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{t, key, name}
}

// sign returns the token of claims.
func (i *issuer) sign(c jwt.Claims) string {
	i.t.Helper()
	token, err := c.Encode(i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

// credentials writes a .creds file of a user of the account, who may use these subjects.
func (i *issuer) credentials(subjects ...string) (path string) {
	i.t.Helper()
	user := newIssuer(i.t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(user.name)
	claims.Pub.Allow.Add(subjects...)
	claims.Sub.Allow.Add(subjects...)
	seed, err := user.key.Seed()
	if err != nil {
		i.t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(i.sign(claims), seed)
	if err != nil {
		i.t.Fatal(err)
	}
	path = filepath.Join(i.t.TempDir(), "user.creds")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		i.t.Fatal(err)
	}
	return path
}

// TestCredentials joins by .creds files of a NATS with accounts. The subjects of docs/fleet.md are enough. A user
// without them, or of another operator, shares nothing.
func TestCredentials(t *testing.T) {
	operator := newIssuer(t, nkeys.CreateOperator)
	system, account := newIssuer(t, nkeys.CreateAccount), newIssuer(t, nkeys.CreateAccount)
	ours := jwt.NewAccountClaims(account.name)
	ours.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage: 1 << 30, MemoryStorage: 1 << 30, Streams: 10, Consumer: 100,
	}
	resolver := new(server.MemAccResolver)
	for name, token := range map[string]string{
		system.name: operator.sign(jwt.NewAccountClaims(system.name)), account.name: operator.sign(ours),
	} {
		if err := resolver.Store(name, token); err != nil {
			t.Fatal(err)
		}
	}
	trusted, err := jwt.DecodeOperatorClaims(operator.sign(jwt.NewOperatorClaims(operator.name)))
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		TrustedOperators: []*jwt.OperatorClaims{trusted}, SystemAccount: system.name, AccountResolver: resolver,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { halt(s) })
	of := func(node, credentials string) (Options, *games) {
		own := new(games)
		own.set(3)
		url := fmt.Sprintf("nats://127.0.0.1:%d", port)
		return Options{
			Node: node, Servers: []string{url}, Credentials: credentials, Games: own, Budgets: new(limited),
			SpendingEvery: 50 * time.Millisecond,
		}, own
	}
	documented := account.credentials("$JS.API.>", "_INBOX.>", "$KV.tidegate_test_bans.>", "$KV.tidegate_test_servers.>",
		"tidegate.test.counts.>", "tidegate.test.budgets.>")
	options, left := of("a", documented)
	a := join(t, options)
	a.awaitCurrent(t)
	options, right := of("b", account.credentials(">"))
	b := join(t, options)
	b.awaitCurrent(t)
	a.Bans.Add(lasting(address(1)))
	b.awaitBan(t, address(1), true)
	left.operator(gameAt(1), true)
	right.awaitDrains(t, b, gameAt(1))
	left.awaitElsewhere(t, a, 3)
	right.awaitElsewhere(t, b, 3)
	a.Budgets.(*limited).use(usedBy(address(2), time.Second))
	b.Budgets.(*limited).awaitCharge(t, address(2), time.Second)
	b.Budgets.(*limited).use(usedBy(address(3), time.Second))
	a.Budgets.(*limited).awaitCharge(t, address(3), time.Second)

	stranger := newIssuer(t, nkeys.CreateAccount)
	for i, credentials := range []string{account.credentials("_INBOX.>"), stranger.credentials(">"), ""} {
		options, _ := of(fmt.Sprintf("c%d", i), credentials)
		m := join(t, options)
		await.Until(t, "tried", func() bool { return m.Status().Error != "" })
		if s := m.Status(); s.Current || s.Nodes != 0 {
			t.Errorf("node %d shares: %+v", i, s)
		}
	}
	if n := a.Status().Nodes; n != 1 {
		t.Errorf("%d nodes report, want 1", n)
	}
}
