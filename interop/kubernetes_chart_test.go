//go:build interop

package interop_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	helm      = "helm.sh/helm/v3/cmd/helm@v3.18.4" // as in the Makefile
	chartPath = "../packaging/helm/tidegate"
)

// chartPaths are the API's paths of the kinds in the chart, in the namespace games.
var chartPaths = map[string]string{
	"Secret":              namespaceGames + "/secrets/",
	"Service":             namespaceGames + "/services/",
	"ServiceAccount":      namespaceGames + "/serviceaccounts/",
	"Role":                roles + "roles/",
	"RoleBinding":         roles + "rolebindings/",
	"Deployment":          "/apis/apps/v1/namespaces/games/deployments/",
	"StatefulSet":         "/apis/apps/v1/namespaces/games/statefulsets/",
	"PodDisruptionBudget": "/apis/policy/v1/namespaces/games/poddisruptionbudgets/",
}

// rendered returns the objects of the chart with some values.
func rendered(t *testing.T, values string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("admin: {token: 0123456789abcdef}\n"+values), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", helm, "template", "games", chartPath, "-n", "games", "-f", file).Output()
	if err != nil {
		t.Fatalf("helm: %v\n%s", err, err.(*exec.ExitError).Stderr)
	}
	return strings.Split(string(out), "\n---\n")
}

var (
	kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)
	nameLine = regexp.MustCompile(`(?m)^  name: (\S+)$`)
	tomlText = regexp.MustCompile(`(?s)  tidegate.toml: \|\n(.*?)(\n  \w|$)`)
	mounted  = regexp.MustCompile(`/etc/tidegate-(fleet-tls|fleet|token)/|/var/lib/tidegate/`)
)

// TestKubernetesChart gives the chart's objects to a real API server, which refuses unknown fields. Tidegate checks the
// configuration.
func TestKubernetesChart(t *testing.T) {
	k := startKubernetes(t)
	k.prepare(t)
	for name, row := range map[string]struct{ values, kinds string }{
		"plain": {"", "Secret Service Deployment"},
		"discovery": {"discovery: {endpoints: true, agones: true}",
			"ServiceAccount Secret Role RoleBinding Service Deployment"},
		"embedded NATS": {"replicas: 3\nfleet: {enabled: true, secret: fedcba9876543210, storageClass: fast}\n" +
			"podDisruptionBudget: {enabled: true}", "PodDisruptionBudget Secret Service Service StatefulSet"},
		"existing NATS": {`fleet: {enabled: true, servers: ["tls://nats.example.com:4222"], existingSecret: user}`,
			"Secret Service Deployment"},
		"existing NATS with an nkey": {`fleet: {enabled: true, servers: ["tls://nats.example.com:4222"], existingSecret: user,
  nkey: true, limits: true, follow: true}`, "Secret Service Deployment"},
		"existing NATS without a hook": {`fleet: {enabled: true, servers: ["tls://nats.example.com:4222"], follow: true,
  existingSecret: user, drain: {enabled: false}}`, "Secret Service Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			var kinds []string
			for _, object := range rendered(t, row.values) {
				kind, name := kindLine.FindStringSubmatch(object), nameLine.FindStringSubmatch(object)
				if kind == nil || name == nil || chartPaths[kind[1]] == "" {
					t.Fatalf("an object without a known kind or a name:\n%s", object)
				}
				kinds = append(kinds, kind[1])
				hooked := strings.Contains(row.values, "follow: true") && !strings.Contains(row.values, "drain: {enabled: false}")
				if isPods := strings.Contains(object, "terminationGracePeriodSeconds"); isPods &&
					strings.Contains(object, "preStop") != hooked {
					t.Errorf("a hook is wanted: %v\n%s", hooked, object)
				}
				k.apply(t, chartPaths[kind[1]]+name[1], object)
				if toml := tomlText.FindStringSubmatch(object); toml != nil {
					checkMounted(t, toml[1])
				}
			}
			if got := strings.Join(kinds, " "); got != row.kinds {
				t.Errorf("the chart has %s, want %s", got, row.kinds)
			}
		})
	}
	token := k.token(t, "games", "games-tidegate")
	for path, want := range map[string]int{
		slicesOfGames: http.StatusOK, agonesOfGames: http.StatusOK, slicesOfGames + "/any": http.StatusForbidden,
		namespaceGames + "/secrets": http.StatusForbidden, namespaceGames + "/pods": http.StatusForbidden,
	} {
		if code, _ := k.ask(t, token, http.MethodGet, path, ""); code != want {
			t.Errorf("the chart's account asks for %s: %d, want %d", path, code, want)
		}
	}
}

// checkMounted checks the configuration of a pod, with files in place of its mounts.
func checkMounted(t *testing.T, indented string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"token", "secret", "creds", "nkey"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("0123456789abcdef\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := mounted.ReplaceAllString(strings.ReplaceAll("\n"+indented, "\n    ", "\n"), dir+"/")
	path := filepath.Join(dir, "tidegate.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tidegate, "check", "-q", "-c", path).CombinedOutput(); err != nil {
		t.Errorf("check: %v\n%s\n%s", err, out, text)
	}
}
