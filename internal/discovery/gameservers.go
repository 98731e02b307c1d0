package discovery

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tidegate/internal/upstream"
)

// GameServerOptions say which GameServers of Agones are servers of an upstream.
type GameServerOptions struct {
	Fleet     string   // empty: of any fleet, or of none
	Selector  string   // by labels, in Kubernetes' own form; empty: all
	Port      string   // name or number; empty: the only one of Transport
	Transport string   // "udp" or "tcp"
	States    []string // "Ready", "Allocated" or "Reserved"
	Address   string   // "node", "internal" or "pod"
	Capacity  string   // counter or list that bounds the sessions; empty: none
}

// GameServers returns a source: the GameServers of Agones in certain states are servers.
func GameServers(cluster Cluster, o GameServerOptions) Source {
	var parts, names []string
	if o.Fleet != "" {
		parts, names = append(parts, "agones.dev/fleet="+o.Fleet), append(names, "fleet "+o.Fleet)
	}
	if o.Selector != "" {
		parts, names = append(parts, o.Selector), append(names, "selector "+o.Selector)
	}
	return &objects{
		name:     "agones " + strings.Join(names, " "),
		cluster:  cluster,
		kind:     schema.GroupVersionResource{Group: "agones.dev", Version: "v1", Resource: "gameservers"},
		selector: strings.Join(parts, ","),
		unused:   [][]string{{"spec", "template"}},
		servers:  o.servers,
	}
}

// gameServer has the fields of a GameServer that Tidegate reads.
type gameServer struct {
	Spec struct {
		Ports []struct {
			Name          string `json:"name"`
			Protocol      string `json:"protocol"` // empty: UDP
			ContainerPort int64  `json:"containerPort"`
		} `json:"ports"`
	} `json:"spec"`
	Status struct {
		State string `json:"state"`
		Ports []struct {
			Name string `json:"name"`
			Port int64  `json:"port"`
		} `json:"ports"` // of the node
		Address   string `json:"address"`
		Addresses []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
		Counters map[string]capacity `json:"counters"`
		Lists    map[string]capacity `json:"lists"`
	} `json:"status"`
}

// capacity is the bound of a counter or a list. 0: no bound.
type capacity struct {
	Capacity int64 `json:"capacity"`
}

// largestBound is the largest MaxSessions of a server. It is more than a proxy can have.
const largestBound = 1_000_000

// servers returns the GameServers that take new sessions. One without a usable address or port is left out, so that it
// does not hold up the others. If all are so, that is an error.
func (o *GameServerOptions) servers(all []*unstructured.Unstructured) (servers []upstream.Target, err error) {
	var unusable error
	for _, object := range all {
		var g gameServer
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &g); err != nil {
			unusable = fmt.Errorf("GameServer %s: %w", object.GetName(), err)
			continue
		}
		if !slices.Contains(o.States, g.Status.State) || object.GetDeletionTimestamp() != nil {
			continue
		}
		addr, err := o.addr(&g)
		if err != nil {
			unusable = fmt.Errorf("GameServer %s: %w", object.GetName(), err)
			continue
		}
		servers = append(servers, upstream.Target{Addr: addr, Weight: 1, MaxSessions: o.bound(&g)})
	}
	if len(servers) == 0 {
		return nil, unusable
	}
	return servers, nil
}

// addr returns the address and port of a GameServer.
func (o *GameServerOptions) addr(g *gameServer) (netip.AddrPort, error) {
	text := g.Status.Address
	if kind := map[string]string{"internal": "InternalIP", "pod": "PodIP"}[o.Address]; kind != "" {
		text = ""
		for _, a := range g.Status.Addresses {
			if a.Type == kind && text == "" { // of two families, the first is Kubernetes' choice
				text = a.Address
			}
		}
		if text == "" {
			return netip.AddrPort{}, fmt.Errorf("no %s in status.addresses", kind)
		}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no IP address: choose another one by address of [upstream.agones]", text)
	}
	port, err := portWanted{o.Port, strings.ToUpper(o.Transport)}.among(o.ports(g))
	return netip.AddrPortFrom(addr.Unmap(), port), err
}

// ports returns the ports of a GameServer: those of its node, or of its pod.
func (o *GameServerOptions) ports(g *gameServer) (ports []namedPort) {
	for _, p := range g.Spec.Ports {
		port := namedPort{p.Name, p.Protocol, p.ContainerPort}
		if port.protocol == "" {
			port.protocol = "UDP"
		}
		if o.Address == "pod" {
			ports = append(ports, port)
			continue
		}
		for _, at := range g.Status.Ports {
			if at.Name == p.Name {
				port.port = at.Port
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// bound returns the most sessions of a GameServer. 0: no bound.
func (o *GameServerOptions) bound(g *gameServer) int {
	c, ok := g.Status.Counters[o.Capacity]
	if !ok {
		c = g.Status.Lists[o.Capacity]
	}
	return int(min(max(c.Capacity, 0), largestBound))
}
