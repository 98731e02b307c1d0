package discovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

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
	stored := store.List()
	all := make([]*unstructured.Unstructured, len(stored))
	for i, object := range stored {
		all[i] = object.(*unstructured.Unstructured)
	}
	servers, err := o.servers(all)
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
