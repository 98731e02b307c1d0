package cli

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
)

const (
	probeTime    = 3 * time.Second // for one server to answer check
	probesAtTime = 64              // servers that are asked at the same time
)

// probed is the result of a question to one server of an upstream, and its JSON.
type probed struct {
	Upstream string  `json:"upstream"`
	Server   string  `json:"server"`
	Asked    bool    `json:"asked"`
	Answered bool    `json:"answered"`
	RTT      float64 `json:"rtt_ms,omitempty"`
	Refuses  bool    `json:"refuses,omitempty"`
	Text     string  `json:"text"`
}

// String returns the result for people.
func (p *probed) String() string {
	text := p.Upstream + " " + p.Server + ": " + printable(p.Text)
	if p.Answered {
		text += fmt.Sprintf(", %.2f ms", p.RTT)
	}
	return text
}

// probeServers asks every server of a configuration in its own protocol, from this machine.
func probeServers(ctx context.Context, settled *config.Config, wait time.Duration) (all []*probed) {
	places := make(chan struct{}, probesAtTime)
	var asking sync.WaitGroup
	for i := range settled.Upstreams {
		u := &settled.Upstreams[i]
		for _, server := range u.Servers {
			one := &probed{Upstream: u.Name, Server: server.String()}
			all = append(all, one)
			asking.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				one.ask(ctx, u, server.Address.AddrPort, wait)
			})
		}
	}
	asking.Wait()
	return all
}

// ask asks the server at its first port, if its upstream allows it.
func (p *probed) ask(ctx context.Context, u *config.Upstream, at netip.AddrPort, wait time.Duration) {
	d := protocols.Find(u.Protocol)
	var by probe
	if d != nil {
		by = probeOf(d, u.Transport == config.TCP, false)
	}
	switch {
	case d == nil:
		p.Text = "not asked: the servers' protocol is unknown"
		return
	case by == nil:
		p.Text = "not asked: the game would notice a client"
		return
	case !u.ProxyProtocol.Is(policy.HeadersOff):
		p.Text = "not asked: the server wants PROXY protocol headers"
		return
	}
	p.Asked = true
	found, err := pingFor(ctx, at.String(), []probe{by}, 1, wait)
	if err != nil {
		p.Text = strings.TrimPrefix(err.Error(), "ping "+at.String()+": ")
		return
	}
	p.Answered, p.RTT, p.Refuses, p.Text = true, found[0].RTT, found[0].Refuses, "online"
	if text := found[0].Text; text != `""` {
		p.Text += ", " + text
	}
}

// silent returns an error if a server was asked, and did not answer or refuses clients.
func silent(all []*probed) error {
	asked, answered := 0, 0
	for _, p := range all {
		if p.Asked {
			asked++
		}
		if p.Answered && !p.Refuses {
			answered++
		}
	}
	if answered < asked {
		return fmt.Errorf("%d of %d servers did not answer, or refuse clients", asked-answered, asked)
	}
	return nil
}

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
