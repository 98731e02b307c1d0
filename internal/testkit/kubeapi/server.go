// Package kubeapi is a small API server of Kubernetes, for tests. The tests in interop have the real one.
package kubeapi

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Server lists and watches the objects of one namespace and kind on a real socket. It admits one account, with the
// right to list and to watch.
type Server struct {
	Asked  chan struct{} // readable after a request
	t      *testing.T
	path   string // of the objects
	list   metav1.TypeMeta
	server *httptest.Server

	mu       sync.Mutex // guards the fields below
	changed  *sync.Cond // broadcast at each change
	version  int
	objects  map[string]Object // by name
	events   []event
	refusal  int // status of all answers; 0: none
	requests int
	verbs    []string // list and watch, each once
}

// Object is an object of the API.
type Object interface {
	metav1.Object
	runtime.Object
}

// event is a change of one object.
type event struct {
	version int
	kind    watch.EventType
	object  Object
}

const apiToken = "a-token-of-the-test"

// Serve serves the objects of a resource in a namespace until the test ends: "discovery.k8s.io/v1", "games",
// "endpointslices", "EndpointSlice".
func Serve(t *testing.T, group, namespace, resource, kind string) *Server {
	t.Helper()
	s := &Server{
		t: t, path: "/apis/" + group + "/namespaces/" + namespace + "/" + resource, version: 100,
		list:  metav1.TypeMeta{APIVersion: group, Kind: kind + "List"},
		Asked: make(chan struct{}, 1), objects: make(map[string]Object),
	}
	s.changed = sync.NewCond(&s.mu)
	s.server = httptest.NewTLSServer(s)
	t.Cleanup(func() {
		s.Refuse(http.StatusServiceUnavailable) // ends the watches
		s.server.Close()
	})
	return s
}

// Kubeconfig writes a file that names the server, the account and a namespace, and returns its path.
func (s *Server) Kubeconfig(namespace string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	err := os.WriteFile(filepath.Join(filepath.Dir(path), "ca.pem"), authority, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q, certificate-authority: ca.pem}}]
users: [{name: tidegate, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: tidegate, namespace: %s}}]
`, s.server.URL, apiToken, namespace)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// Put creates or replaces objects.
func (s *Server) Put(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		kind := watch.Added
		if s.objects[o.GetName()] != nil {
			kind = watch.Modified
		}
		s.change(kind, o)
		s.objects[o.GetName()] = o
	}
}

// Remove deletes an object.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(watch.Deleted, s.objects[name])
	delete(s.objects, name)
}

func (s *Server) change(kind watch.EventType, o Object) {
	s.version++
	o = o.DeepCopyObject().(Object)
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.events = append(s.events, event{s.version, kind, o})
	s.changed.Broadcast()
}

// Refuse answers every request with a status, and ends all watches. 0 ends that.
func (s *Server) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = status
	s.changed.Broadcast()
}

// Verbs returns list and watch, as far as they were used.
func (s *Server) Verbs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.verbs)
}

// Requests returns the number of requests.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	select {
	case s.Asked <- struct{}{}:
	default: // already readable
	}
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	switch {
	case s.refusal != 0:
		refuse(w, s.refusal, metav1.StatusReasonUnknown)
	case r.Header.Get("Authorization") != "Bearer "+apiToken:
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case r.Method != http.MethodGet || r.URL.Path != s.path || err != nil:
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case query.Get("sendInitialEvents") != "": // an API server without streamed lists
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case query.Get("watch") != "":
		s.verb("watch")
		s.watch(w, r, selector)
	default:
		s.verb("list")
		list := struct {
			metav1.TypeMeta
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []Object        `json:"items"`
		}{s.list, metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, []Object{}}
		for _, o := range s.objects {
			if selector.Matches(labels.Set(o.GetLabels())) {
				list.Items = append(list.Items, o)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}
}

func (s *Server) verb(v string) {
	if !slices.Contains(s.verbs, v) {
		s.verbs = append(s.verbs, v)
	}
}

// watch writes all events after a version until the client leaves or the server refuses. The caller holds the lock.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, selector labels.Selector) {
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-r.Context().Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		case <-stop:
		}
	}()
	w.Header().Set("Content-Type", "application/json")
	for {
		for _, e := range s.events {
			if e.version <= after || !selector.Matches(labels.Set(e.object.GetLabels())) {
				continue
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.object})
			after = e.version
		}
		w.(http.Flusher).Flush()
		if s.changed.Wait(); s.refusal != 0 || r.Context().Err() != nil {
			return
		}
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Message: "refused by the test", Reason: reason, Code: int32(code),
	})
}

// Slice returns an EndpointSlice of a service, with one ready endpoint at a named UDP port.
func Slice(name, service, port string, at netip.AddrPort) *discoveryv1.EndpointSlice {
	number, protocol, ready := int32(at.Port()), corev1.ProtocolUDP, true
	return &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{at.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &port, Protocol: &protocol, Port: &number}},
	}
}
