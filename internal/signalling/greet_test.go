package signalling

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// secured begins TLS on a new connection.
func (w *world) secured() (*client, *tls.Conn, error) {
	raw := w.dial()
	c := tls.Client(raw.Conn, &tls.Config{InsecureSkipVerify: true})
	err := c.Handshake()
	return &client{w.t, c, bufio.NewReader(c)}, c, err
}

// TestWithoutCertificate answers a ClientHello with the alert of Bedrock's server, so that the client tries plain HTTP.
func TestWithoutCertificate(t *testing.T) {
	w := serve(t, nil)
	if _, _, err := w.secured(); err == nil || err.Error() != "remote error: tls: handshake failure" {
		t.Errorf("%v", err)
	}
	raw := w.dial()
	if _, err := raw.Write(append([]byte{tlsHandshake, 3, 1, 2, 0}, make([]byte, 512)...)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(raw); err != nil || !bytes.Equal(got, noTLS) { // no reset
		t.Errorf("% x, %v", got, err)
	}
	if got := w.dial().send(get("/v1/join")); got.status != http.StatusOK {
		t.Errorf("plain: %+v", got)
	}
}

// TestWithCertificate joins over TLS. Plain HTTP works as well, unless it must not.
func TestWithCertificate(t *testing.T) {
	folder := t.TempDir()
	c, err := LoadCertificate(writeCertificate(t, folder, "one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, only := range []bool{false, true} {
		w := serve(t, func(o *Options) { o.Certificate, o.OnlyTLS = c.Get, only })
		client, _, err := w.secured()
		if err != nil {
			t.Fatal(err)
		}
		if got := client.send(get("/v1/join")); got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
		if got := client.send(post("/v1/join/1", offerOf(1))); got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
		got := w.dial().send(post("/v1/join/1", offerOf(2)))
		switch {
		case !only && got.status != http.StatusOK:
			t.Errorf("plain: %+v", got)
		case only && (got.status != http.StatusUpgradeRequired || got.header.Get("Upgrade") != "TLS/1.2, HTTP/1.1"):
			t.Errorf("plain: %+v", got)
		}
	}
}

// TestRenewedCertificate replaces the files of a running Server, first with broken ones.
func TestRenewedCertificate(t *testing.T) {
	folder := t.TempDir()
	chain, key := writeCertificate(t, folder, "one")
	c, err := LoadCertificate(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, func(o *Options) { o.Certificate = c.Get })
	name := func() string {
		_, secured, err := w.secured()
		if err != nil {
			t.Fatal(err)
		}
		return secured.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "one" {
		t.Error(got)
	}
	if err := os.WriteFile(chain, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.Load() == nil {
		t.Error("a broken certificate is taken")
	}
	if got := name(); got != "one" {
		t.Errorf("after a fault: %s", got)
	}
	writeCertificate(t, folder, "two")
	if err := c.Load(); err != nil || name() != "two" {
		t.Errorf("%v; then %s", err, name())
	}
}

func TestCertificatesThatCannotBeUsed(t *testing.T) {
	folder := t.TempDir()
	chain, key := writeCertificate(t, folder, "one")
	if _, err := LoadCertificate(chain, filepath.Join(folder, "none")); err == nil {
		t.Error("no key")
	}
	if _, err := LoadCertificate(filepath.Join(folder, "none"), key); err == nil {
		t.Error("no certificate")
	}
	if _, err := LoadCertificate(key, chain); err == nil {
		t.Error("exchanged")
	}
}

// writeCertificate writes a certificate of its own into a folder, and returns the files.
func writeCertificate(t *testing.T, folder, name string) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	chain, key = filepath.Join(folder, "chain.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{
		key: {Type: "PRIVATE KEY", Bytes: secret}, chain: {Type: "CERTIFICATE", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chain, key
}

// TestTrustedProxies believes a trusted proxy about its client, and no stranger.
func TestTrustedProxies(t *testing.T) {
	const v1 = "PROXY TCP4 198.51.100.7 203.0.113.50 4711 19132\r\n"
	asHeader := func(command proxyproto.ProtocolVersionAndCommand) string {
		h := proxyproto.Header{
			Version: 2, Command: command, TransportProtocol: proxyproto.TCPv6,
			SourceAddr:      &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 1},
			DestinationAddr: &net.TCPAddr{IP: net.ParseIP("2001:db8::9"), Port: 2},
		}
		b, err := h.Format()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	v2, local := asHeader(proxyproto.PROXY), asHeader(proxyproto.LOCAL)
	forwarded := func(list string) string {
		return strings.Replace(post("/v1/join/1", offerOf(1)), "\r\n\r\n", "\r\nX-Forwarded-For: "+list+"\r\n\r\n", 1)
	}
	plain := post("/v1/join/1", offerOf(1))
	for name, test := range map[string]struct {
		from, text, want string // want: the client's address; empty: no join
		local            string // at which the client reached the edge
	}{
		"v1":                    {"127.0.1.1", v1 + plain, "198.51.100.7", "203.0.113.50"},
		"v2":                    {"127.0.1.1", v2 + plain, "2001:db8::7", "2001:db8::9"},
		"a health check":        {"127.0.1.1", local + plain, "127.0.1.1", "127.0.0.1"},
		"no header":             {"127.0.1.1", plain, "127.0.1.1", "127.0.0.1"},
		"a broken header":       {"127.0.1.1", "PROXY TCP9 x\r\n" + plain, "", ""},
		"a stranger's v1":       {"127.0.2.1", v1 + plain, "", ""},
		"forwarded":             {"127.0.1.1", forwarded("192.0.2.66, 198.51.100.7"), "198.51.100.7", "127.0.0.1"},
		"forwarded twice":       {"127.0.1.1", forwarded("192.0.2.66, 198.51.100.7, 127.0.1.2"), "198.51.100.7", "127.0.0.1"},
		"forwarded IPv6":        {"127.0.1.1", forwarded("::ffff:198.51.100.7"), "198.51.100.7", "127.0.0.1"},
		"forwarded by strange":  {"127.0.2.1", forwarded("198.51.100.7"), "127.0.2.1", "127.0.0.1"},
		"v1 goes before":        {"127.0.1.1", v1 + forwarded("192.0.2.66"), "198.51.100.7", "203.0.113.50"},
		"forwarded nonsense":    {"127.0.1.1", forwarded("unknown"), "127.0.1.1", "127.0.0.1"},
		"forwarded by a client": {"127.0.1.1", v1 + forwarded("127.0.1.9"), "198.51.100.7", "203.0.113.50"},
	} {
		reached := make(chan string, 1)
		w := serve(t, func(o *Options) {
			o.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.1.0/24")}
			o.Candidates = func(local netip.Addr) []netip.AddrPort {
				reached <- local.String()
				return []netip.AddrPort{netip.AddrPortFrom(local, edge.Port())}
			}
		})
		got := w.from(test.from).send(test.text)
		ticket := w.tickets.Find(start, []byte("srv1:cli1"))
		if test.want == "" {
			if ticket != nil || got.status == http.StatusOK {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if ticket == nil || ticket.Client.String() != test.want || <-reached != test.local {
			t.Errorf("%s: %+v, %+v", name, got, ticket)
		}
	}
}
