package cli

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// TestContextBehindTLS asks a proxy behind a reverse proxy with TLS, as over the Internet. It hears no token of a
// program that does not trust its certificate.
func TestContextBehindTLS(t *testing.T) {
	ownContexts(t)
	const secret = "0123456789abcdef"
	socket := socketPath(t)
	startProcess(t, bridgeConfig(echoServer(t))+"[admin]\nlisten = \"unix:"+socket+"\"\ntoken = \""+secret+"\"\n")
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "localhost"})
	behind.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	front := httptest.NewTLSServer(behind)
	t.Cleanup(front.Close)
	t.Setenv(tokenVariable, secret)
	says(t, 0, "contexts: eu1", "context", "add", "eu1", front.URL)
	t.Setenv(contextVariable, "eu1")
	t.Setenv("SSL_CERT_FILE", os.DevNull)
	t.Setenv("SSL_CERT_DIR", os.DevNull)
	if code, out, errs := separately(t, "health"); code != 1 || out != "" {
		t.Errorf("a stranger's certificate: code %d, %q %q", code, out, errs)
	}
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	must(t, os.WriteFile(trusted, block, 0o600))
	t.Setenv("SSL_CERT_FILE", trusted)
	for _, args := range [][]string{{"health"}, {"context", "list"}, {"sessions", "list", "--count"}} {
		if code, out, errs := separately(t, args...); code != 0 {
			t.Errorf("%v: code %d, %q %q", args, code, out, errs)
		}
	}
}
