package discovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/kubeapi"
	"tidegate/internal/upstream"
)

// gameServerNamed returns a GameServer of the fleet arena in a state, as Agones writes them. The last byte of its
// addresses is n. more has further fields of the status, or replaces some.
func gameServerNamed(t *testing.T, name, state string, n int, more string) *unstructured.Unstructured {
	t.Helper()
	text := fmt.Sprintf(`{
		"apiVersion": "agones.dev/v1", "kind": "GameServer",
		"metadata": {"name": %q, "labels": {"agones.dev/fleet": "arena", "map": "dunes"}},
		"spec": {"ports": [
			{"name": "game", "containerPort": 7777, "hostPort": %[3]d, "portPolicy": "Dynamic", "protocol": "UDP"},
			{"name": "web", "containerPort": 8080, "hostPort": %[4]d, "portPolicy": "Dynamic", "protocol": "TCP"}],
			"template": {"spec": {"containers": [{"name": "game", "image": "game"}]}}},
		"status": {"state": %[2]q, "address": "203.0.113.%[5]d", "nodeName": "node-%[5]d",
			"ports": [{"name": "game", "port": %[3]d}, {"name": "web", "port": %[4]d}],
			"addresses": [{"type": "Hostname", "address": "node-%[5]d"}, {"type": "InternalIP", "address": "10.1.0.%[5]d"},
				{"type": "PodIP", "address": "10.2.0.%[5]d"}, {"type": "PodIP", "address": "fd00::%[5]d"}]}
	}`, name, state, 7000+n, 8000+n, n)
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	var status map[string]any
	if err := json.Unmarshal([]byte("{"+more+"}"), &status); err != nil {
		t.Fatal(err)
	}
	for key, value := range status {
		fields["status"].(map[string]any)[key] = value
	}
	return &unstructured.Unstructured{Object: fields}
}

// ofArena returns the options of the fleet arena with their defaults.
func ofArena() GameServerOptions {
	return GameServerOptions{Fleet: "arena", Transport: "udp", States: []string{"Ready", "Allocated"}, Address: "node"}
}

// TestGameServers follows a fleet: GameServers get ready, are allocated, and shut down.
func TestGameServers(t *testing.T) {
	s := kubeapi.Serve(t, "agones.dev/v1", "games", "gameservers", "GameServer")
	other := gameServerNamed(t, "other", "Ready", 9, "")
	other.SetLabels(map[string]string{"agones.dev/fleet": "lobby", "map": "dunes"})
	ice := gameServerNamed(t, "ice", "Ready", 8, "")
	ice.SetLabels(map[string]string{"agones.dev/fleet": "arena", "map": "ice"})
	s.Put(other, ice, gameServerNamed(t, "a", "Scheduled", 1, ""))
	o := ofArena()
	o.Selector, o.Capacity = "map in (dunes, sea)", "players"
	found := watchOf(t, GameServers(Cluster{Kubeconfig: s.Kubeconfig("games")}, o))
	s.Put(gameServerNamed(t, "a", "Ready", 1, `"counters": {"players": {"count": 3, "capacity": 16}}`))
	first := upstream.Target{Addr: target("203.0.113.1:7001", 1).Addr, Weight: 1, MaxSessions: 16}
	want(t, found, first)
	s.Put(gameServerNamed(t, "b", "Allocated", 2, `"lists": {"players": {"values": ["ada"], "capacity": 4}}`))
	second := upstream.Target{Addr: target("203.0.113.2:7002", 1).Addr, Weight: 1, MaxSessions: 4}
	want(t, found, first, second)
	s.Put(gameServerNamed(t, "a", "Shutdown", 1, ""))
	want(t, found, second)
	s.Remove("b") // a fleet without servers is no failure
	want(t, found)
}

// TestEmptyFleetIsLogged checks that the log names the first list of a source, also an empty one.
func TestEmptyFleetIsLogged(t *testing.T) {
	s := kubeapi.Serve(t, "agones.dev/v1", "games", "gameservers", "GameServer")
	var log lines
	source := GameServers(Cluster{Kubeconfig: s.Kubeconfig("games")}, ofArena())
	Watch(t.Context(), []Source{source}, zerolog.New(&log), func(list []upstream.Target) { t.Errorf("found %v", list) })
	await.Until(t, "logged", func() bool { return log.count(`"servers":0,"message":"servers discovered"`) == 1 })
}

// TestGameServerStates checks which states take new sessions.
func TestGameServerStates(t *testing.T) {
	for state, want := range map[string]bool{
		"PortAllocation": false, "Creating": false, "Starting": false, "Scheduled": false, "RequestReady": false,
		"Ready": true, "Allocated": true, "Reserved": false, "Shutdown": false, "Error": false, "Unhealthy": false,
	} {
		o := ofArena()
		for range 2 {
			servers, err := o.servers(list(gameServerNamed(t, "a", state, 1, "")))
			if err != nil || (len(servers) == 1) != want {
				t.Errorf("%s in %v: %v, %v", state, o.States, servers, err)
			}
			o.States = append(o.States, "Reserved")
			want = want || state == "Reserved"
		}
	}
	deleted := gameServerNamed(t, "a", "Ready", 1, "")
	_ = unstructured.SetNestedField(deleted.Object, "2026-11-23T12:00:00Z", "metadata", "deletionTimestamp")
	o := ofArena()
	if servers, err := o.servers(list(deleted)); err != nil || len(servers) != 0 {
		t.Errorf("one that is deleted: %v, %v", servers, err)
	}
}

// TestGameServerAddresses checks addresses, ports and bounds.
func TestGameServerAddresses(t *testing.T) {
	for name, row := range map[string]struct{ address, port, transport, more, want string }{
		"node":         {"node", "", "udp", "", "203.0.113.1:7001 max 0"},
		"internal":     {"internal", "game", "udp", "", "10.1.0.1:7001 max 0"},
		"pod":          {"pod", "", "udp", "", "10.2.0.1:7777 max 0"},
		"pod, number":  {"pod", "7777", "udp", "", "10.2.0.1:7777 max 0"},
		"tcp":          {"node", "", "tcp", "", "203.0.113.1:8001 max 0"},
		"no such port": {"node", "voice", "udp", "", "GameServer a: no UDP port voice"},
		"a host's name": {"node", "", "udp", `"address": "node-1.example"`, `GameServer a: "node-1.example" is no IP ` +
			"address: choose another one by address of [upstream.agones]"},
		"older Agones":  {"pod", "", "udp", `"addresses": null`, "GameServer a: no PodIP in status.addresses"},
		"without bound": {"node", "", "udp", `"counters": {"players": {"capacity": 0}}`, "203.0.113.1:7001 max 0"},
		"another bound": {"node", "", "udp", `"counters": {"rooms": {"capacity": 5}}`, "203.0.113.1:7001 max 0"},
		"a large bound": {"node", "", "udp", `"lists": {"players": {"capacity": 9223372036854775807}}`,
			"203.0.113.1:7001 max 1000000"},
		"a wrong status": {"node", "", "udp", `"ports": "none"`, "GameServer a: cannot restore slice from string"},
	} {
		t.Run(name, func(t *testing.T) {
			o := ofArena()
			o.Address, o.Port, o.Transport, o.Capacity = row.address, row.port, row.transport, "players"
			servers, err := o.servers(list(gameServerNamed(t, "a", "Ready", 1, row.more)))
			var got []string
			for _, s := range servers {
				got = append(got, fmt.Sprintf("%s max %d", s.Addr, s.MaxSessions))
			}
			if err != nil {
				got = append(got, err.Error())
			}
			if strings.Join(got, " ") != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// TestGameServersWithoutAddressAreLeftOut checks that one unusable GameServer does not hold up the others.
func TestGameServersWithoutAddressAreLeftOut(t *testing.T) {
	o := ofArena()
	servers, err := o.servers(list(
		gameServerNamed(t, "a", "Ready", 1, `"address": ""`), gameServerNamed(t, "b", "Ready", 2, "")))
	if err != nil || len(servers) != 1 || servers[0] != target("203.0.113.2:7002", 1) {
		t.Errorf("%v, %v", servers, err)
	}
}
