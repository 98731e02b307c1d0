package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"tidegate/internal/testkit/await"
)

// authority makes certificates for a test.
type authority struct {
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{folder: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", true)
	return a
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(t *testing.T, name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: ca, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = form, key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", "CERTIFICATE", der)
	a.write(t, name+".key", "PRIVATE KEY", raw)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }

// TestSecureNATS joins by TLS with a certificate and by an nkey. Without them, nothing is shared.
func TestSecureNATS(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, "server", false)
	a.issue(t, "node", false)
	config, err := server.GenTLSConfig(&server.TLSConfigOpts{
		CertFile: a.path("server.pem"), KeyFile: a.path("server.key"), CaFile: a.path("ca.pem"), Verify: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.path("seed"), seed, 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		TLSConfig: config, TLSVerify: true, TLSTimeout: 5, Nkeys: []*server.NkeyUser{{Nkey: public}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { halt(s) })
	full := Options{
		Node: "a", Servers: []string{fmt.Sprintf("tls://127.0.0.1:%d", port)}, Games: new(games),
		Credentials: a.path("seed"), CA: a.path("ca.pem"), Certificate: a.path("node.pem"), Key: a.path("node.key"),
	}
	noCertificate, noKey, noAuthority := full, full, full
	noCertificate.Certificate, noCertificate.Key = "", ""
	noKey.Credentials = ""
	noAuthority.CA = ""
	join(t, full).awaitCurrent(t)
	for i, o := range []Options{noCertificate, noKey, noAuthority} {
		o.Node, o.Games = fmt.Sprintf("b%d", i), new(games)
		m := join(t, o)
		await.Until(t, "tried", func() bool { return m.Status().Error != "" })
		if m.Status().Connected || m.Status().Current {
			t.Errorf("node %d joins: %+v", i, m.Status())
		}
	}
}
