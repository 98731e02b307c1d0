package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Agones finds an upstream's servers by the GameServers of a Kubernetes cluster. It is off without Fleet and Selector.
type Agones struct {
	Fleet      string        `toml:"fleet"`
	Selector   string        `toml:"selector"` // by labels
	Port       string        `toml:"port"`     // name or number; empty: the only one of the transport
	States     []AgonesState `toml:"states"`   // that take new sessions
	Address    AgonesAddress `toml:"address"`
	Capacity   string        `toml:"capacity"`   // counter or list that bounds the sessions; empty: none
	Namespace  string        `toml:"namespace"`  // empty: the pod's own, or the one of Kubeconfig
	Kubeconfig string        `toml:"kubeconfig"` // path; empty: the service account of the pod
}

func defaultAgones() Agones {
	return Agones{States: []AgonesState{AgonesReady, AgonesAllocated}, Address: AgonesNode}
}

// On reports whether servers are GameServers.
func (a *Agones) On() bool { return a.Fleet != "" || a.Selector != "" }

// AgonesState is a state of a GameServer in which it can have players.
type AgonesState string

// States.
const (
	AgonesReady     AgonesState = "Ready"     // Agones may delete it at any time
	AgonesAllocated AgonesState = "Allocated" // it is in use
	AgonesReserved  AgonesState = "Reserved"  // it is kept for a use to come
)

// Choices lists the words of the configuration.
func (AgonesState) Choices() []string { return choices(AgonesReady, AgonesAllocated, AgonesReserved) }

// AgonesAddress is one of the addresses of a GameServer.
type AgonesAddress string

// Addresses.
const (
	AgonesNode     AgonesAddress = "node"     // that Agones tells players: the node's external one, if it has one
	AgonesInternal AgonesAddress = "internal" // the node's internal one
	AgonesPod      AgonesAddress = "pod"      // the pod's, with the ports of its container
)

// Choices lists the words of the configuration.
func (AgonesAddress) Choices() []string { return choices(AgonesNode, AgonesInternal, AgonesPod) }

// agones checks the GameServers that are an upstream's servers.
func (v *validator) agones(path string, u Upstream) {
	path, a := child(path, "agones"), u.Agones
	if !a.On() {
		if a.Port != "" || a.Capacity != "" || a.Namespace != "" || a.Kubeconfig != "" {
			v.fault(child(path, "fleet"), nil, "the name of a fleet, a selector of labels, or no [upstream.agones]")
		}
		return
	}
	if a.Fleet != "" && !isLabel(a.Fleet) {
		v.fault(child(path, "fleet"), a.Fleet, "the name of a fleet: "+labelForm)
	}
	if _, err := labels.Parse(a.Selector); err != nil {
		v.fault(child(path, "selector"), a.Selector,
			`labels as Kubernetes selects them, for example "map=dunes,mode in (duel, team)"`)
	}
	if len(a.States) == 0 {
		v.fault(child(path, "states"), a.States, "at least one state")
	}
	for i, state := range a.States {
		if slices.Contains(a.States[:i], state) {
			v.fault(item(child(path, "states"), i), state, "each state once")
		}
	}
	v.clusterNames(path, a.Port, a.Namespace)
}
