//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"tidegate/internal/testkit/await"
)

// kubernetesBinaries is where make kubernetes puts them, below the user's cache.
const kubernetesBinaries = "tidegate-interop/kubernetes-1.37.2"

// adminToken belongs to an account that may do everything.
const adminToken = "the-administrator"

// kubernetes is a real API server of Kubernetes on a real etcd. It has no controllers: tests write what they would.
type kubernetes struct {
	dir, bin string
	port     string
	etcd     string // URL
	server   *process
	client   *http.Client
}

// startKubernetes runs kube-apiserver and etcd.
func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	k := &kubernetes{dir: t.TempDir(), bin: filepath.Join(cache, kubernetesBinaries)}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(k.bin, name)); err != nil {
			t.Skipf("%v: make kubernetes builds it in about 15 minutes", err)
		}
	}
	k.write(t, "tokens.csv", adminToken+",admin,1,system:masters\n")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, "accounts.key", string(pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
	})))
	k.port, k.etcd = freePort(t), "http://127.0.0.1:"+freePort(t)
	peers := "http://127.0.0.1:" + freePort(t)
	start(t, nil, func([]byte) {}, filepath.Join(k.bin, "etcd"), "--data-dir", filepath.Join(k.dir, "etcd"),
		"--listen-client-urls", k.etcd, "--advertise-client-urls", k.etcd, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync",
		"--log-level", "error")
	k.start(t)
	return k
}

// start runs the API server until it is ready. It uses the certificate of an earlier run.
func (k *kubernetes) start(t *testing.T) {
	t.Helper()
	key := filepath.Join(k.dir, "accounts.key")
	k.server = start(t, nil, func([]byte) {}, filepath.Join(k.bin, "kube-apiserver"), "--etcd-servers", k.etcd,
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", k.port,
		"--cert-dir", filepath.Join(k.dir, "certificates"), "--service-cluster-ip-range", "10.96.0.0/16",
		"--authorization-mode", "RBAC", "--token-auth-file", filepath.Join(k.dir, "tokens.csv"),
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key,
		"--service-account-signing-key-file", key, "--disable-admission-plugins", "ServiceAccount",
		"--endpoint-reconciler-type", "none")
	ready := func() bool {
		authority, err := os.ReadFile(k.authority())
		if err != nil {
			return false
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		k.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
		code, _ := k.ask(t, adminToken, http.MethodGet, "/readyz", "")
		return code == http.StatusOK
	}
	if !await.Within(3*await.Patience, ready) { // at its first start it writes its roles
		t.Fatal("kube-apiserver is not ready")
	}
}

// authority returns the file with the certificate of the API server, which it signs itself.
func (k *kubernetes) authority() string { return filepath.Join(k.dir, "certificates", "apiserver.crt") }

func (k *kubernetes) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request and returns the status and the answer. The status is 0 without an answer.
func (k *kubernetes) ask(t *testing.T, token, method, path, body string) (int, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	url := "https://127.0.0.1:" + k.port + path
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch { // a server-side apply, which takes YAML
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text
}

// apply creates or replaces an object.
func (k *kubernetes) apply(t *testing.T, path, yaml string) {
	t.Helper()
	code, text := k.ask(t, adminToken, http.MethodPatch, path+"?fieldManager=test&force=true&fieldValidation=Strict", yaml)
	if code != http.StatusOK && code != http.StatusCreated {
		t.Fatalf("apply %s: %d %s\n%s", path, code, text, yaml)
	}
}

// remove deletes an object.
func (k *kubernetes) remove(t *testing.T, path string) {
	t.Helper()
	if code, text := k.ask(t, adminToken, http.MethodDelete, path, ""); code != http.StatusOK {
		t.Fatalf("delete %s: %d %s", path, code, text)
	}
}

// token returns a token of a service account, as a pod has it.
func (k *kubernetes) token(t *testing.T, namespace, account string) string {
	t.Helper()
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + account + "/token"
	code, text := k.ask(t, adminToken, http.MethodPost, path, `{"spec": {"expirationSeconds": 3600}}`)
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal(text, &issued); err != nil || code != http.StatusCreated {
		t.Fatalf("token: %d %s", code, text)
	}
	return issued.Status.Token
}

// kubeconfig writes a file for an account and returns its path.
func (k *kubernetes) kubeconfig(t *testing.T, namespace, token string) string {
	t.Helper()
	authority, err := os.ReadFile(k.authority())
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, "kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: games
clusters: [{name: games, cluster: {server: "https://127.0.0.1:%s", certificate-authority-data: %s}}]
users: [{name: tidegate, user: {token: %s}}]
contexts: [{name: games, context: {cluster: games, user: tidegate, namespace: %s}}]
`, k.port, base64.StdEncoding.EncodeToString(authority), token, namespace))
	return filepath.Join(k.dir, "kubeconfig")
}
