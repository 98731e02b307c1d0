package config

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
)

// kubernetes checks the service whose endpoints are an upstream's servers.
func (v *validator) kubernetes(path string, u Upstream) {
	path, k := child(path, "kubernetes"), u.Kubernetes
	switch {
	case !k.On():
		return
	case k.Service == "":
		v.fault(child(path, "service"), nil, "the name of a service, or no [upstream.kubernetes]")
	case !isLabel(k.Service):
		v.fault(child(path, "service"), k.Service, "the name of a service: "+labelForm)
	}
	v.clusterNames(path, k.Port, k.Namespace)
}

// clusterNames checks the keys that all tables of a cluster's servers have.
func (v *validator) clusterNames(path, port, namespace string) {
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && !isPortName(port) && (err != nil || n == 0) {
		v.fault(child(path, "port"), port, `the name of a port, its number in quotes, or ""`)
	}
	if namespace != "" && !isLabel(namespace) {
		v.fault(child(path, "namespace"), namespace, "the name of a namespace: "+labelForm)
	}
}

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
