package discovery

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/kubeapi"
	"tidegate/internal/upstream"
)

func pointer[T any](v T) *T { return &v }

// slice returns an EndpointSlice of the service arena, as the controllers of Kubernetes write them.
func slice(name string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "arena"}},
		AddressType: family,
		Endpoints:   endpoints,
		Ports: []discoveryv1.EndpointPort{
			{Name: pointer("game"), Protocol: pointer(corev1.ProtocolUDP), Port: pointer[int32](7777)},
			{Name: pointer("query"), Protocol: pointer(corev1.ProtocolUDP), Port: pointer[int32](7778)},
			{Name: pointer("admin"), Protocol: pointer(corev1.ProtocolTCP), Port: pointer[int32](9000)},
		},
	}
}

func list[T any](all ...T) []T { return all }

// endpoint returns an endpoint with its conditions ready, serving and terminating: "r", "s" and "t". "?" has none.
func endpoint(addr, conditions string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{addr}}
	if conditions != "?" {
		has := func(c string) *bool { return pointer(strings.Contains(conditions, c)) }
		e.Conditions = discoveryv1.EndpointConditions{Ready: has("r"), Serving: has("s"), Terminating: has("t")}
	}
	return e
}

func endpointServer(t *testing.T) *kubeapi.Server {
	return kubeapi.Serve(t, "discovery.k8s.io/v1", "games", "endpointslices", "EndpointSlice")
}

const (
	ipv4 = discoveryv1.AddressTypeIPv4
	ipv6 = discoveryv1.AddressTypeIPv6
)

// TestEndpoints follows a service: pods come, get ready, terminate and go, in several slices.
func TestEndpoints(t *testing.T) {
	s := endpointServer(t)
	other := slice("other", ipv4, endpoint("10.0.9.9", "rs"))
	other.Labels[discoveryv1.LabelServiceName] = "lobby"
	s.Put(slice("one", ipv4, endpoint("10.0.0.1", "rs"), endpoint("10.0.0.2", "")), other)
	found := watchOf(t, Endpoints(Cluster{Kubeconfig: s.Kubeconfig("games")}, "arena", "game", "udp"))
	want(t, found, target("10.0.0.1:7777", 1))
	s.Put(slice("one", ipv4, endpoint("10.0.0.1", "rs"), endpoint("10.0.0.2", "rs")))
	want(t, found, target("10.0.0.1:7777", 1), target("10.0.0.2:7777", 1))
	s.Put(slice("two", ipv4, endpoint("10.0.0.2", "rs"), endpoint("10.0.0.3", "rs"))) // one of them twice
	want(t, found, target("10.0.0.1:7777", 1), target("10.0.0.2:7777", 1), target("10.0.0.3:7777", 1))
	s.Put(slice("one", ipv4, endpoint("10.0.0.1", "st"))) // it serves its players to the end
	want(t, found, target("10.0.0.2:7777", 1), target("10.0.0.3:7777", 1))
	s.Remove("two")
	want(t, found)
	if verbs := s.Verbs(); !slices.Equal(verbs, []string{"list", "watch"}) {
		t.Errorf("it used %q, want list and watch, as the chart's Role allows", verbs)
	}
}

// TestEndpointsOutlastAPIServer checks that the last list stays while the API server is away or refuses, that the log
// says so once, and that changes made meanwhile are found afterwards.
func TestEndpointsOutlastAPIServer(t *testing.T) {
	s := endpointServer(t)
	s.Put(slice("one", ipv4, endpoint("10.0.0.1", "rs")))
	var log lines
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := make(chan []upstream.Target, 16)
	Watch(ctx, []Source{Endpoints(Cluster{Kubeconfig: s.Kubeconfig("games")}, "arena", "7777", "udp")}, zerolog.New(&log),
		func(list []upstream.Target) { found <- list })
	want(t, found, target("10.0.0.1:7777", 1))
	before := s.Requests()
	s.Refuse(http.StatusForbidden)
	await.News(t, "asked again", s.Asked, func() bool { return s.Requests() >= before+2 })
	s.Put(slice("two", ipv4, endpoint("10.0.0.2", "rs")))
	s.Refuse(0)
	want(t, found, target("10.0.0.1:7777", 1), target("10.0.0.2:7777", 1))
	if n := log.count("the last result stays"); n != 1 {
		t.Errorf("the log says %d times that the last result stays", n)
	}
	s.Remove("one")
	want(t, found, target("10.0.0.2:7777", 1))
	s.Remove("two") // the service is gone: more likely a mistake than a request to stop all servers
	await.Until(t, "logged", func() bool { return log.count("no EndpointSlice of service arena") == 1 })
	if len(found) != 0 {
		t.Errorf("the servers changed to %v", <-found)
	}
}

// TestEndpointServers checks conditions, families and ports.
func TestEndpointServers(t *testing.T) {
	one := slice("a", ipv4, endpoint("10.0.0.1", "rs"))
	for name, row := range map[string]struct {
		port, transport, want string // the servers, or the error
		slices                []*discoveryv1.EndpointSlice
	}{
		"conditions": {"game", "udp", "10.0.0.1:7777 10.0.0.2:7777", list(slice("a", ipv4,
			endpoint("10.0.0.1", "?"), endpoint("10.0.0.2", "rs"), endpoint("10.0.0.3", "s"),
			endpoint("10.0.0.4", "st"), endpoint("10.0.0.5", "t"), endpoint("10.0.0.6", "rst")))},
		"both families": {"game", "udp", "10.0.0.1:7777", list(slice("b", ipv6, endpoint("fd00::1", "rs")), one)},
		"IPv6":          {"game", "udp", "[fd00::1]:7777", list(slice("a", ipv6, endpoint("fd00::1", "rs")))},
		"IPv4 in IPv6":  {"game", "udp", "10.0.0.1:7777", list(slice("a", ipv6, endpoint("::ffff:10.0.0.1", "rs")))},
		"number":        {"7778", "udp", "10.0.0.1:7778", list(one)},
		"the only":      {"", "tcp", "10.0.0.1:9000", list(one)},
		"two":           {"", "udp", "2 UDP ports: name one of them in port", list(one)},
		"other":         {"admin", "udp", "no UDP port admin", list(one)},
		"not ready":     {"admin", "udp", "", list(slice("a", ipv4, endpoint("10.0.0.1", "")))},
		"no service":    {"game", "udp", "no EndpointSlice of service arena in the namespace", nil},
		"no address": {"game", "udp", `endpoint: ParseAddr("pod-1"): unable to parse IP`,
			list(slice("a", ipv4, endpoint("pod-1", "rs")))},
		"host names": {"game", "udp", "", list(slice("a", "FQDN", endpoint("pod-1", "rs")))},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*unstructured.Unstructured
			for _, s := range row.slices {
				fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, &unstructured.Unstructured{Object: fields})
			}
			servers, err := endpointServers(all, "arena", portWanted{row.port, strings.ToUpper(row.transport)})
			var addrs []string
			for _, s := range servers {
				addrs = append(addrs, s.Addr.String())
			}
			got := strings.Join(addrs, " ")
			if err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// TestAsk asks an API server once, which then refuses.
func TestAsk(t *testing.T) {
	s := endpointServer(t)
	s.Put(slice("one", ipv4, endpoint("10.0.0.1", "rs"), endpoint("10.0.0.2", "rs")))
	source := Endpoints(Cluster{Kubeconfig: s.Kubeconfig("games")}, "arena", "game", "udp")
	if n, err := Ask(t.Context(), source); n != 2 || err != nil {
		t.Errorf("%d servers, %v", n, err)
	}
	s.Refuse(http.StatusForbidden)
	if _, err := Ask(t.Context(), source); err == nil || !strings.Contains(err.Error(), "refused by the test") {
		t.Errorf("refused: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Ask(ended, source); err == nil {
		t.Error("no error without an answer")
	}
}

// TestClusterIsMissing checks that an unreadable kubeconfig and a machine outside of a cluster are reported.
func TestClusterIsMissing(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for path, want := range map[string]string{
		"": "outside of a cluster, set kubeconfig", "/nobody's": "read kubeconfig /nobody's",
	} {
		if _, _, err := (Cluster{Kubeconfig: path}).open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

// lines is a log that tests can read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}
