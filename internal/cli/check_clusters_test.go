package cli

import (
	"net/netip"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
)

// TestCheckTellsJoins says where NetherNet clients join, and which addresses they are told.
func TestCheckTellsJoins(t *testing.T) {
	address := config.AddressOf(netip.MustParseAddrPort("0.0.0.0:19132"))
	c := &config.Config{Listeners: []config.Listener{
		{Name: "old", Protocols: []string{"bedrock"}, Address: address},
		{Name: "new", Protocols: []string{"bedrock", "nethernet"}, Address: address},
		{Name: "far", Protocols: []string{"nethernet"}, Address: address, TLSCertificate: "x.pem",
			PublicAddresses: []config.IP{"203.0.113.9", "2001:db8::9"}},
	}}
	own, err := netio.OwnAddresses()
	if err != nil {
		t.Fatal(err)
	}
	told, doubt := setup.Told(&c.Listeners[1], own)
	if doubt != "" {
		doubt += "\n"
	}
	want := "new: NetherNet clients join by HTTP at TCP 0.0.0.0:19132, and are told " + told + "\n" + doubt +
		"far: NetherNet clients join by HTTPS and HTTP at TCP 0.0.0.0:19132, and are told [203.0.113.9 2001:db8::9]\n"
	if got := explainJoins(c); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

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
