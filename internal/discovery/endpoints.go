package discovery

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tidegate/internal/upstream"
)

// Endpoints returns a source: the ready endpoints of a Kubernetes service are servers, at the port with a name or
// number. The port may be empty if the service has one port of the transport, "udp" or "tcp".
func Endpoints(cluster Cluster, service, port, transport string) Source {
	wanted := portWanted{name: port, protocol: strings.ToUpper(transport)}
	return &objects{
		name:     "kubernetes service " + service,
		cluster:  cluster,
		kind:     schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
		selector: "kubernetes.io/service-name=" + service,
		servers: func(all []*unstructured.Unstructured) ([]upstream.Target, error) {
			return endpointServers(all, service, wanted)
		},
	}
}

// endpointSlice is a part of a service's endpoints. It has the fields of an EndpointSlice that Tidegate reads.
type endpointSlice struct {
	AddressType string `json:"addressType"`
	Endpoints   []struct {
		Addresses  []string `json:"addresses"` // of one endpoint; the first is enough
		Conditions struct {
			Ready       *bool `json:"ready"` // nil: yes
			Terminating *bool `json:"terminating"`
		} `json:"conditions"`
	} `json:"endpoints"`
	Ports []struct {
		Name     string `json:"name"`
		Protocol string `json:"protocol"`
		Port     int64  `json:"port"`
	} `json:"ports"`
}

// endpointServers returns the servers of all slices of a service. An endpoint that terminates is none, even if it says
// that it is ready, as those of a service with publishNotReadyAddresses do. A service of both address families has
// slices of both for the same pods: only those of IPv4 count then.
func endpointServers(all []*unstructured.Unstructured, service string, port portWanted) ([]upstream.Target, error) {
	if len(all) == 0 { // each service has a slice, also without pods
		return nil, fmt.Errorf("no EndpointSlice of service %s in the namespace", service)
	}
	slicesOf := make(map[string][]endpointSlice)
	for _, object := range all {
		var s endpointSlice
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &s); err != nil {
			return nil, fmt.Errorf("EndpointSlice %s: %w", object.GetName(), err)
		}
		slicesOf[s.AddressType] = append(slicesOf[s.AddressType], s)
	}
	family := slicesOf["IPv4"]
	if len(family) == 0 {
		family = slicesOf["IPv6"]
	}
	var servers []upstream.Target
	for i := range family {
		found, err := family[i].servers(port)
		if err != nil {
			return nil, err // a part of the result would drain the missing servers
		}
		servers = append(servers, found...)
	}
	return servers, nil
}

// servers returns the endpoints of a slice that take new sessions.
func (s *endpointSlice) servers(wanted portWanted) (servers []upstream.Target, err error) {
	var addrs []netip.Addr
	for _, e := range s.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready || isTrue(e.Conditions.Terminating) || len(e.Addresses) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(e.Addresses[0])
		if err != nil {
			return nil, fmt.Errorf("endpoint: %w", err)
		}
		addrs = append(addrs, addr.Unmap())
	}
	if len(addrs) == 0 {
		return nil, nil // the slice of a service without pods has no ports
	}
	ports := make([]namedPort, len(s.Ports))
	for i, p := range s.Ports {
		ports[i] = namedPort{p.Name, p.Protocol, p.Port}
	}
	port, err := wanted.among(ports)
	for _, addr := range addrs {
		servers = append(servers, upstream.Target{Addr: netip.AddrPortFrom(addr, port), Weight: 1})
	}
	return servers, err
}

func isTrue(b *bool) bool { return b != nil && *b }

// portWanted is the choice of one port among those of a server.
type portWanted struct {
	name     string // or number; empty: the only port of the protocol
	protocol string // "UDP" or "TCP"
}

// namedPort is a port of a service or a game server. Agones has ports of both protocols, TCPUDP.
type namedPort struct {
	name, protocol string
	port           int64
}

// among returns the wanted port.
func (w portWanted) among(ports []namedPort) (uint16, error) {
	ports = slices.DeleteFunc(slices.Clone(ports), func(p namedPort) bool {
		return p.protocol != w.protocol && p.protocol != "TCPUDP" || p.port < 1 || p.port > 65535 ||
			w.name != "" && p.name != w.name && strconv.FormatInt(p.port, 10) != w.name
	})
	switch {
	case len(ports) == 1:
		return uint16(ports[0].port), nil
	case len(ports) > 1:
		return 0, fmt.Errorf("%d %s ports: name one of them in port", len(ports), w.protocol)
	case w.name == "":
		return 0, fmt.Errorf("no %s port", w.protocol)
	}
	return 0, fmt.Errorf("no %s port %s", w.protocol, w.name)
}
