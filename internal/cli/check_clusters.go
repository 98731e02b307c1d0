package cli

import (
	"fmt"
	"strings"

	"tidegate/internal/config"
)

// needed begins the list of the rights.
const needed = "needs the rights to list and watch"

// explainClusters describes the servers that are found in Kubernetes, and the rights for that.
func explainClusters(c *config.Config) string {
	var text strings.Builder
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if k := &u.Kubernetes; k.On() {
			fmt.Fprintf(&text, "%s: servers are the ready endpoints of the service %s%s; %s endpointslices "+
				"(discovery.k8s.io) %s\n", u.Name, k.Service, atPort(k.Port), needed, inCluster(k.Namespace, k.Kubeconfig))
		}
		if a := &u.Agones; a.On() {
			fmt.Fprintf(&text, "%s: servers are the GameServers of Agones %s%s in the states %v%s; %s gameservers "+
				"(agones.dev) %s\n", u.Name, chosen(a), atPort(a.Port), a.States, bounded(a), needed,
				inCluster(a.Namespace, a.Kubeconfig))
		}
	}
	return text.String()
}

// chosen describes which GameServers are servers.
func chosen(a *config.Agones) string {
	var by []string
	if a.Fleet != "" {
		by = append(by, "of the fleet "+a.Fleet)
	}
	if a.Selector != "" {
		by = append(by, "with "+a.Selector)
	}
	return strings.Join(by, " ")
}

func bounded(a *config.Agones) string {
	if a.Capacity == "" {
		return ""
	}
	return ", with at most as many sessions as the capacity of " + a.Capacity
}

func atPort(port string) string {
	if port == "" {
		return ""
	}
	return " at port " + port
}

func inCluster(namespace, kubeconfig string) string {
	switch {
	case namespace == "" && kubeconfig == "":
		return "in the pod's namespace"
	case kubeconfig == "":
		return "in the namespace " + namespace
	case namespace == "":
		return "in the namespace of " + kubeconfig
	}
	return "in the namespace " + namespace + " of " + kubeconfig
}
