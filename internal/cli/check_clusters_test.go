package cli

import (
	"testing"

	"tidegate/internal/config"
)

func TestCheckExplainsClusters(t *testing.T) {
	c := &config.Config{Upstreams: []config.Upstream{
		{Name: "plain"},
		{Name: "arena", Kubernetes: config.Kubernetes{Service: "arena", Port: "game"}},
		{Name: "lobby", Kubernetes: config.Kubernetes{Service: "lobby", Namespace: "games", Kubeconfig: "eu.yaml"}},
		{Name: "duel", Agones: config.Agones{
			Fleet: "duel", Selector: "map=ice", States: []config.AgonesState{"Ready", "Allocated"}, Capacity: "players",
		}},
	}}
	const needs = "; needs the rights to list and watch endpointslices (discovery.k8s.io) in the "
	want := "arena: servers are the ready endpoints of the service arena at port game" + needs + "pod's namespace\n" +
		"lobby: servers are the ready endpoints of the service lobby" + needs + "namespace games of eu.yaml\n" +
		"duel: servers are the GameServers of Agones of the fleet duel with map=ice in the states [Ready Allocated], with " +
		"at most as many sessions as the capacity of players; needs the rights to list and watch gameservers " +
		"(agones.dev) in the pod's namespace\n"
	if got := explainClusters(c); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
