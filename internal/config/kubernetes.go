package config

import (
	"slices"
	"strings"
)

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
