package cli

import (
	"fmt"
	"strings"

	"tidegate/internal/config"
)

// explainClusters describes the servers that are found in Kubernetes, and the rights for that.
func explainClusters(c *config.Config) string {
	var text strings.Builder
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if k := &u.Kubernetes; k.On() {
			fmt.Fprintf(&text, "%s: servers are the ready endpoints of the service %s%s; needs the rights to list and watch "+
				"endpointslices (discovery.k8s.io) %s\n", u.Name, k.Service, atPort(k.Port), inCluster(k.Namespace, k.Kubeconfig))
		}
	}
	return text.String()
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
