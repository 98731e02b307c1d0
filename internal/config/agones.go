package config

// Agones finds an upstream's servers by the GameServers of a Kubernetes cluster. It is off without Fleet and Selector.
type Agones struct {
	Fleet      string        `toml:"fleet"`
	Selector   string        `toml:"selector"`                         // by labels
	Port       string        `toml:"port"`                             // name or number; empty: the only one
	States     []AgonesState `toml:"states" default:"Ready,Allocated"` // that take new sessions
	Address    AgonesAddress `toml:"address" default:"node"`
	Capacity   string        `toml:"capacity"`   // counter or list that bounds the sessions; empty: none
	Namespace  string        `toml:"namespace"`  // empty: the pod's own, or the one of Kubeconfig
	Kubeconfig string        `toml:"kubeconfig"` // path; empty: the service account of the pod
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
