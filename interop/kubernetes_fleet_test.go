//go:build interop && linux

package interop_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"tidegate/internal/admin"
	"tidegate/internal/fleet/view"
	"tidegate/internal/testkit/await"
)

const fleetOfPods = `
replicas: 3
fleet: {enabled: true, secret: fedcba9876543210, limits: true, follow: true}
`

// chartFleet is what the chart says about the pods of a fleet.
type chartFleet struct {
	set    apps.StatefulSet
	secret core.Secret
	peers  core.Service // headless
}

// pod is a container as a kubelet would start it, without the container: the host's name is the pod's, volumes are
// folders, and the pod's address is one of loopback.
type pod struct {
	*process
	name, address, dir string
	file               func(text string) string // replaces mount paths and addresses
	client             *admin.Client
}

// TestKubernetesChartFleet runs the pods of the chart's StatefulSet with the real binary. They form one fleet, also
// after a pod was replaced. The pod that ends runs its preStop hook, as a kubelet would let it.
func TestKubernetesChartFleet(t *testing.T) {
	c := renderedFleet(t)
	pods := make([]*pod, *c.set.Spec.Replicas)
	for i := range pods {
		pods[i] = c.pod(t, i)
	}
	for _, p := range pods {
		p.start(t, c)
	}
	for _, p := range pods {
		p.awaitFleet(t, len(pods))
	}
	pods[0].ban(t, "198.51.100.0/24")
	for _, p := range pods {
		p.awaitBan(t, "198.51.100.7")
	}
	pods[1].end(t, c)
	pods[2].ban(t, "192.0.2.0/24") // by two of three
	pods[1].start(t, c)            // it has its name and its volume, and no ban file
	pods[1].awaitFleet(t, len(pods))
	pods[1].awaitBan(t, "198.51.100.7")
	pods[1].awaitBan(t, "192.0.2.7")
}

// renderedFleet returns the objects of the chart that make pods. The headless service must find them before they are
// ready.
func renderedFleet(t *testing.T) *chartFleet {
	t.Helper()
	c := new(chartFleet)
	for _, object := range rendered(t, fleetOfPods) {
		into := map[string]any{"Secret": &c.secret, "StatefulSet": &c.set}[kindLine.FindStringSubmatch(object)[1]]
		if strings.Contains(object, "clusterIP: None") {
			into = &c.peers
		}
		if into == nil {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(object), into); err != nil {
			t.Fatalf("%v\n%s", err, object)
		}
	}
	labels := c.set.Spec.Template.Labels
	for name, value := range c.peers.Spec.Selector {
		if labels[name] != value {
			t.Errorf("the headless service selects %s=%s, and the pods have %q", name, value, labels[name])
		}
	}
	if c.set.Spec.ServiceName != c.peers.Name || !c.peers.Spec.PublishNotReadyAddresses ||
		c.set.Spec.PodManagementPolicy != apps.ParallelPodManagement {
		t.Errorf("pods of %q cannot find one another before they are ready: %+v", c.set.Spec.ServiceName, c.peers.Spec)
	}
	return c
}

// pod returns a pod by its ordinal number, with its volumes.
func (c *chartFleet) pod(t *testing.T, ordinal int) *pod {
	t.Helper()
	p := &pod{name: fmt.Sprintf("%s-%d", c.set.Name, ordinal), address: podAddress(ordinal), dir: t.TempDir()}
	replace := []string{"0.0.0.0:", p.address + ":"}
	for i := range *c.set.Spec.Replicas { // as the cluster's DNS answers, for the ports of the service
		name := fmt.Sprintf("%s-%d.%s.games.svc:%d", c.set.Name, i, c.peers.Name, c.peers.Spec.Ports[0].Port)
		if !strings.Contains(c.secret.StringData["tidegate.toml"], `"`+name+`"`) {
			t.Fatalf("the configuration does not name the peer %s:\n%s", name, c.secret.StringData["tidegate.toml"])
		}
		replace = append(replace, name, net.JoinHostPort(podAddress(int(i)), fmt.Sprint(c.peers.Spec.Ports[0].Port)))
	}
	container := &c.set.Spec.Template.Spec.Containers[0]
	for _, m := range container.VolumeMounts {
		replace = append(replace, m.MountPath+"/", filepath.Join(p.dir, m.MountPath)+"/")
	}
	p.file = strings.NewReplacer(replace...).Replace
	for _, m := range container.VolumeMounts {
		if err := os.MkdirAll(filepath.Join(p.dir, m.MountPath), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range c.files(t, m.Name) {
			if err := os.WriteFile(filepath.Join(p.dir, m.MountPath, name), []byte(p.file(text)), 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.client = admin.NewClient(admin.Address(p.address+":9470"), c.secret.StringData["token"])
	return p
}

func podAddress(ordinal int) string { return fmt.Sprintf("127.0.71.%d", ordinal+1) }

// files returns the files of a volume: of the Secret that the chart makes, or none of a new claim.
func (c *chartFleet) files(t *testing.T, volume string) map[string]string {
	t.Helper()
	for i := range c.set.Spec.VolumeClaimTemplates {
		if c.set.Spec.VolumeClaimTemplates[i].Name == volume {
			return nil
		}
	}
	files := make(map[string]string)
	for _, v := range c.set.Spec.Template.Spec.Volumes {
		if v.Name != volume || v.Secret == nil || v.Secret.SecretName != c.secret.Name {
			continue
		}
		for _, item := range v.Secret.Items {
			text, ok := c.secret.StringData[item.Key]
			if !ok {
				t.Fatalf("the Secret has no key %s", item.Key)
			}
			files[item.Path] = text
		}
	}
	if len(files) == 0 {
		t.Fatalf("no volume %s", volume)
	}
	return files
}

// start starts the container, with the pod's name as the host's. It waits for the readiness probe.
func (p *pod) start(t *testing.T, c *chartFleet) {
	t.Helper()
	container := &c.set.Spec.Template.Spec.Containers[0]
	p.process = start(t, nil, func([]byte) {}, p.inside(append([]string{tidegate}, container.Args...))...)
	probe := append([]string(nil), container.ReadinessProbe.Exec.Command...)
	if probe[0] != "/tidegate" {
		t.Fatalf("the image has no program %s", probe[0])
	}
	probe[0] = tidegate
	await.Nil(t, func() error { return start(t, nil, func([]byte) {}, p.inside(probe)...).wait() })
}

// end runs the hook of the container that ends. It drains the pod to the fleet, so the pod has ended after it.
func (p *pod) end(t *testing.T, c *chartFleet) {
	t.Helper()
	spec := &c.set.Spec.Template.Spec
	hook := append([]string(nil), spec.Containers[0].Lifecycle.PreStop.Exec.Command...)
	if hook[0] != "/tidegate" || *spec.TerminationGracePeriodSeconds != 90+30 {
		t.Fatalf("hook %v, and %d seconds for it and drain_grace", hook, *spec.TerminationGracePeriodSeconds)
	}
	hook[0] = tidegate
	if err := start(t, nil, func([]byte) {}, p.inside(hook)...).wait(); err != nil {
		t.Errorf("preStop: %v", err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("the pod's end: %v", err)
	}
}

// inside returns a command that runs in the pod.
func (p *pod) inside(args []string) []string {
	all := []string{"unshare", "--map-root-user", "--uts", "sh", "-c", `hostname "$0" && exec "$@"`, p.name}
	for _, arg := range args {
		all = append(all, p.file(arg))
	}
	return all
}

// awaitFleet waits until the pod shares the bans of a fleet of some nodes, and follows and limits with them.
func (p *pod) awaitFleet(t *testing.T, nodes int) {
	t.Helper()
	await.Nil(t, func() error {
		var f view.Fleet
		err := p.client.Get(t.Context(), "/api/v1/fleet", &f)
		if err == nil && (f.Node != p.name || !f.Current || f.Nodes != nodes-1 || !f.Players.On || !f.Limits.On) {
			err = fmt.Errorf("%s: %+v", p.name, f)
		}
		return err
	})
}

func (p *pod) ban(t *testing.T, network string) {
	t.Helper()
	var done admin.WhyBan
	if err := p.client.Post(t.Context(), "/api/v1/bans", admin.Ban{Prefix: network}, &done); err != nil {
		t.Fatal(err)
	}
}

// awaitBan waits until the pod admits no datagram of an address.
func (p *pod) awaitBan(t *testing.T, address string) {
	t.Helper()
	await.Nil(t, func() error {
		var why admin.Why
		err := p.client.Get(t.Context(), "/api/v1/why?address="+address, &why)
		if err == nil && (why.Decision != "drop" || !strings.HasPrefix(why.Because, "ban of ")) {
			err = fmt.Errorf("%s: %s has the decision %s because of %s", p.name, address, why.Decision, why.Because)
		}
		return err
	})
}
