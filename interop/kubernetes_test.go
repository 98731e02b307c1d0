//go:build interop

package interop_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

const (
	namespaceGames = "/api/v1/namespaces/games"
	slicesOfGames  = "/apis/discovery.k8s.io/v1/namespaces/games/endpointslices"
	agonesOfGames  = "/apis/agones.dev/v1/namespaces/games/gameservers"
	roles          = "/apis/rbac.authorization.k8s.io/v1/namespaces/games/"
)

// gameServers is the definition of Agones' GameServers, without the rules about their fields. Like Agones' own it has
// no subresource for the status.
const gameServers = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gameservers.agones.dev}
spec:
  group: agones.dev
  scope: Namespaced
  names: {kind: GameServer, plural: gameservers, singular: gameserver, shortNames: [gs]}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// roleOfManual is the Role in the documentation.
func roleOfManual(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/recipes/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	role := regexp.MustCompile("(?s)```yaml\n([^`]*kind: Role\n.*?)```").FindSubmatch(page)
	if role == nil {
		t.Fatal("the page has no Role")
	}
	return string(role[1])
}

// endpointSlice is an EndpointSlice of the service arena, as Kubernetes' controllers write it. An endpoint is an
// address, and its conditions ready, serving and terminating as r, s and t.
func endpointSlice(name string, endpoints ...string) string {
	text := fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s, namespace: games, labels: {kubernetes.io/service-name: arena}}
addressType: IPv4
ports: [{name: game, protocol: UDP, port: 7777}, {name: web, protocol: TCP, port: 80}]
endpoints:
`, name)
	for _, e := range endpoints {
		addr, is, _ := strings.Cut(e, " ")
		text += fmt.Sprintf("  - {addresses: [%s], conditions: {ready: %t, serving: %t, terminating: %t}}\n", addr,
			strings.Contains(is, "r"), strings.Contains(is, "s"), strings.Contains(is, "t"))
	}
	return text
}

// gameServer is a GameServer of the fleet arena on this machine.
func gameServer(name, state, port string) string {
	return fmt.Sprintf(`
apiVersion: agones.dev/v1
kind: GameServer
metadata: {name: %s, namespace: games, labels: {agones.dev/fleet: arena}}
spec: {ports: [{name: game, protocol: UDP, containerPort: 7777, portPolicy: Dynamic}]}
status:
  state: %s
  address: 127.0.0.1
  ports: [{name: game, port: %s}]
  lists: {players: {capacity: 8, values: []}}
`, name, state, port)
}

// prepare makes the namespace, Tidegate's account with the Role of the documentation, and the kind of Agones. It
// returns the account's token.
func (k *kubernetes) prepare(t *testing.T) string {
	t.Helper()
	k.apply(t, namespaceGames, "apiVersion: v1\nkind: Namespace\nmetadata: {name: games}\n")
	k.apply(t, namespaceGames+"/serviceaccounts/tidegate", "apiVersion: v1\nkind: ServiceAccount\n"+
		"metadata: {name: tidegate, namespace: games}\n")
	k.apply(t, roles+"roles/tidegate", roleOfManual(t))
	k.apply(t, roles+"rolebindings/tidegate", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tidegate, namespace: games}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tidegate}
subjects: [{kind: ServiceAccount, name: tidegate, namespace: games}]
`)
	k.apply(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gameservers.agones.dev", gameServers)
	await.Until(t, "GameServers served", func() bool {
		code, _ := k.ask(t, adminToken, http.MethodGet, agonesOfGames, "")
		return code == http.StatusOK
	})
	return k.token(t, "games", "tidegate")
}

// following is the configuration of an upstream that follows the cluster. Its one server of its own is nowhere.
func following(protocol, table string) string {
	r := route{protocol: protocol, transport: udp, server: "9", upstream: "health = \"off\"\n" + table}
	return strings.Replace(r.configuration(), `servers = ["127.0.0.1:9"]`, "servers = []", 1)
}

// discovered waits until a number of servers is found, and returns the time from an instant on.
func (p *proxy) discovered(t *testing.T, servers int, since time.Time) time.Duration {
	t.Helper()
	if found := p.await(t, "servers discovered"); found.Servers != servers {
		t.Fatalf("%d servers discovered, want %d", found.Servers, servers)
	}
	return time.Since(since)
}

// TestKubernetesEndpoints follows a service of a real API server, with the rights of the documentation alone. The API
// server dies by SIGKILL and comes back.
func TestKubernetesEndpoints(t *testing.T) {
	k := startKubernetes(t)
	token := k.prepare(t)
	k.apply(t, slicesOfGames+"/arena-1", endpointSlice("arena-1", "192.0.2.1 rs", "192.0.2.2 "))
	p := runTidegate(t, following("bedrock", fmt.Sprintf("[upstream.kubernetes]\nservice = \"arena\"\nport = \"game\"\n"+
		"kubeconfig = %q", k.kubeconfig(t, "games", token))), 2)
	p.discovered(t, 1, time.Now())
	var took []time.Duration
	change := func(servers int, endpoints ...string) {
		t.Helper()
		since := time.Now()
		k.apply(t, slicesOfGames+"/arena-1", endpointSlice("arena-1", endpoints...))
		took = append(took, p.discovered(t, servers, since))
	}
	change(2, "192.0.2.1 rs", "192.0.2.2 rs")
	change(1, "192.0.2.1 st", "192.0.2.2 rs")
	change(2, "192.0.2.1 rs", "192.0.2.2 rs")
	t.Logf("changes took effect after %v", took)

	_ = syscall.Kill(-k.server.cmd.Process.Pid, syscall.SIGKILL)
	_ = k.server.wait()
	p.await(t, "server discovery failed; the last result stays")
	k.start(t)
	k.apply(t, slicesOfGames+"/arena-2", endpointSlice("arena-2", "192.0.2.3 rs"))
	p.discovered(t, 3, time.Now())
	k.remove(t, slicesOfGames+"/arena-1")
	p.discovered(t, 1, time.Now())

	for _, path := range []string{slicesOfGames + "/arena-2", namespaceGames + "/secrets", namespaceGames + "/pods",
		"/apis/discovery.k8s.io/v1/endpointslices", agonesOfGames + "/any"} {
		if code, _ := k.ask(t, token, http.MethodGet, path, ""); code != http.StatusForbidden {
			t.Errorf("the account may get %s: %d", path, code)
		}
	}
	if code, _ := k.ask(t, token, http.MethodDelete, slicesOfGames+"/arena-2", ""); code != http.StatusForbidden {
		t.Errorf("the account may delete: %d", code)
	}
	p.stop(t)
}

// TestKubernetesAgones sends a player to the GameServers of a real API server. The player stays when its GameServer
// shuts down, and the next one goes to another.
func TestKubernetesAgones(t *testing.T) {
	k := startKubernetes(t)
	token := k.prepare(t)
	first, second := startGoServer(t), startGoServer(t)
	p := runTidegate(t, following("bedrock", fmt.Sprintf("[upstream.agones]\nfleet = \"arena\"\ncapacity = \"players\"\n"+
		"kubeconfig = %q", k.kubeconfig(t, "games", token))), 2)
	p.discovered(t, 0, time.Now())
	k.apply(t, agonesOfGames+"/arena-1", gameServer("arena-1", "Ready", first.port))
	p.discovered(t, 1, time.Now())
	stays := startGoClient(t, p.ports[udp])
	stays.await(t, "connected")
	first.await(t, "joined")
	k.apply(t, agonesOfGames+"/arena-2", gameServer("arena-2", "Allocated", second.port))
	p.discovered(t, 2, time.Now())
	k.apply(t, agonesOfGames+"/arena-1", gameServer("arena-1", "Shutdown", first.port))
	p.discovered(t, 1, time.Now())
	next := startGoClient(t, p.ports[udp])
	next.await(t, "connected")
	second.await(t, "joined")
	stays.order(t, order{Do: "send", Payload: "fe01"})
	if echo := stays.await(t, "received"); echo.Payload != "fe01" {
		t.Errorf("the first player got %q", echo.Payload)
	}
	k.remove(t, agonesOfGames+"/arena-1")
	k.remove(t, agonesOfGames+"/arena-2")
	p.discovered(t, 0, time.Now())
	p.stop(t)
}
