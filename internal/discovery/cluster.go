package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"tidegate/internal/each"
	"tidegate/internal/pause"
	"tidegate/internal/upstream"
)

// Cluster is a namespace of a Kubernetes cluster.
type Cluster struct {
	Namespace  string // empty: the pod's own, or the one of Kubeconfig
	Kubeconfig string // path; empty: the service account of the pod
}

// podNamespace is the file with the namespace of a pod.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// settle is the shortest time between two lists of one source. A roll-out changes many objects in a moment.
const settle = 250 * time.Millisecond

// init silences the log of the client library. Each source reports its failures itself.
func init() { klog.SetLogger(logr.Discard()) }

// open returns a client of the API server, and the namespace.
func (c Cluster) open() (client dynamic.Interface, namespace string, err error) {
	var settings *rest.Config
	if c.Kubeconfig == "" {
		settings, namespace, err = podAccount()
	} else {
		settings, namespace, err = fromKubeconfig(c.Kubeconfig)
	}
	if err != nil {
		return nil, "", err
	}
	if c.Namespace != "" {
		namespace = c.Namespace
	}
	settings.UserAgent, settings.WarningHandler = "tidegate", rest.NoWarnings{}
	client, err = dynamic.NewForConfig(settings)
	return client, namespace, err
}

// podAccount returns the settings of the pod's service account. The library reads the token again as it expires.
func podAccount() (*rest.Config, string, error) {
	settings, err := rest.InClusterConfig()
	if err != nil {
		return nil, "", fmt.Errorf("use the pod's service account: %w; outside of a cluster, set kubeconfig", err)
	}
	namespace, err := os.ReadFile(podNamespace)
	return settings, strings.TrimSpace(string(namespace)), err
}

// fromKubeconfig returns the settings of the current context of a kubeconfig file.
func fromKubeconfig(path string) (*rest.Config, string, error) {
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, "", fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	current := clientcmd.NewNonInteractiveClientConfig(*file, "", &clientcmd.ConfigOverrides{}, nil)
	settings, err := current.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("use kubeconfig %s: %w", path, err)
	}
	namespace, _, err := current.Namespace()
	return settings, namespace, err
}

// objects is a source of servers: the objects of one kind with certain labels.
type objects struct {
	name     string // as configured
	cluster  Cluster
	kind     schema.GroupVersionResource
	selector string
	unused   [][]string // fields of the objects that servers does not read
	servers  func([]*unstructured.Unstructured) ([]upstream.Target, error)
}

func (o *objects) String() string { return o.name }

func (o *objects) run(ctx context.Context, tell func([]upstream.Target, error)) {
	for {
		client, namespace, err := o.cluster.open()
		if err == nil {
			o.follow(ctx, client.Resource(o.kind).Namespace(namespace), tell)
			return
		}
		tell(nil, err)
		if !pause.For(ctx, retryAfter) { // the file may come later
			return
		}
	}
}

// follow tells the servers of the objects at first, and after each change. The informer keeps its objects while the
// API server is away, and asks again at growing intervals of at most half a minute.
func (o *objects) follow(ctx context.Context, from dynamic.ResourceInterface, tell func([]upstream.Target, error)) {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // already told
		}
	}
	informer := cache.NewSharedInformer(o.listWatch(from, notify, tell), &unstructured.Unstructured{}, 0)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(_, _ any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err = errors.Join(err, informer.SetTransform(o.trim)); err != nil {
		tell(nil, err)
		return
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	notify() // there may be no object
	for range pause.On(ctx, changed) {
		tell(o.list(informer.GetStore()))
		if !pause.For(ctx, settle) {
			return
		}
	}
}

// list returns the servers of all objects in a store.
func (o *objects) list(store cache.Store) ([]upstream.Target, error) {
	servers, err := o.servers(each.Of(store.List(), func(object any) *unstructured.Unstructured {
		return object.(*unstructured.Unstructured)
	}))
	if len(servers) > maxServers {
		return nil, fmt.Errorf("more than %d servers", maxServers)
	}
	return servers, err
}

// trim removes what servers does not read, so that it takes no memory.
func (o *objects) trim(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		for _, field := range o.unused {
			unstructured.RemoveNestedField(u.Object, field...)
		}
	}
	return object, nil
}

// listWatch asks the API server for the objects, and tells each failure. The informer hides some of them: it retries
// a refused connection without a word. After a success it notifies, so that the end of the failure is known.
func (o *objects) listWatch(from dynamic.ResourceInterface, notify func(),
	tell func([]upstream.Target, error)) cache.ListerWatcher {
	outcome := func(ctx context.Context, err error) {
		switch {
		case err == nil:
			notify()
		case ctx.Err() == nil:
			tell(nil, err)
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = o.selector
			list, err := from.List(ctx, options)
			outcome(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.LabelSelector = o.selector
			events, err := from.Watch(ctx, options)
			if options.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // else the informer asks for a list instead
				outcome(ctx, err)
			}
			return events, err
		},
	}
}

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
