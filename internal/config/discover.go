package config

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Discover is a source of further servers. Exactly one of Host, Service and File is set.
type Discover struct {
	Host    string // DNS name with addresses
	Port    uint16 // of the servers at Host
	Service string // DNS name with SRV records
	File    string // path of a list
}

// discoverFile begins a Discover with a file.
const discoverFile = "file:"

var errDiscover = errors.New("no place to discover servers at")

// UnmarshalText reads what String writes.
func (d *Discover) UnmarshalText(text []byte) error {
	*d = Discover{}
	s := string(text)
	if path, ok := strings.CutPrefix(s, discoverFile); ok && path != "" {
		d.File = path
		return nil
	}
	if labels := strings.Split(s, "."); strings.HasPrefix(s, "_") {
		if len(labels) < 3 || !strings.HasPrefix(labels[1], "_") || !isHost(s) {
			return errDiscover
		}
		d.Service = s
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || !isHost(host) || net.ParseIP(host) != nil {
		return errDiscover
	}
	d.Host, d.Port = host, uint16(n)
	return nil
}

// String returns the text in the file.
func (d Discover) String() string {
	switch {
	case d.File != "":
		return discoverFile + d.File
	case d.Service != "":
		return d.Service
	case d.Host != "":
		return net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))
	}
	return ""
}

// isHost reports whether a text can be a DNS name.
func isHost(text string) bool {
	text = strings.TrimSuffix(text, ".")
	for label := range strings.SplitSeq(text, ".") {
		if len(label) == 0 || len(label) > 63 || !isBare(label) {
			return false
		}
	}
	return len(text) <= 253
}

// Kubernetes finds an upstream's servers by a service of a Kubernetes cluster. It is off if all is empty.
type Kubernetes struct {
	Service    string `toml:"service"`
	Port       string `toml:"port"`       // name or number; empty: the only one of the transport
	Namespace  string `toml:"namespace"`  // empty: the pod's own, or the one of Kubeconfig
	Kubeconfig string `toml:"kubeconfig"` // path; empty: the service account of the pod
}

// On reports whether servers are found by a service.
func (k *Kubernetes) On() bool { return *k != Kubernetes{} }

// Discovers reports whether servers beside the listed ones are looked for.
func (u *Upstream) Discovers() bool {
	return len(u.Discover) > 0 || u.Kubernetes.On() || u.Agones.On()
}

const labelForm = "at most 63 small letters, digits and -, with a letter or digit at both ends"

// isLabel reports whether a text can be the name of a service or a namespace.
func isLabel(text string) bool {
	return len(text) > 0 && len(text) <= 63 && !strings.HasPrefix(text, "-") && !strings.HasSuffix(text, "-") &&
		!slices.ContainsFunc([]byte(text), func(b byte) bool { return !isSmall(b) && b != '-' })
}

// isPortName reports whether a text can be the name of a port, which has a letter.
func isPortName(text string) bool {
	return isLabel(text) && strings.ContainsFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' })
}

func isSmall(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' }

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
