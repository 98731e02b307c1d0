package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/discovery"
	"tidegate/internal/each"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy"
)

// discoverer finds the servers that a configuration does not list, and reports them to a running proxy.
type discoverer struct {
	ctx    context.Context // its end ends the search
	server *proxy.Server
	log    zerolog.Logger

	mu       sync.Mutex                   // guards the fields below
	config   *config.Config               // in force
	watching map[string]discoveredSources // by upstream
}

// discoveredSources are the sources of an upstream's servers.
type discoveredSources struct {
	key  string // equal for equal sources
	stop context.CancelFunc
}

// follow uses the sources of a configuration instead of those of the last one. An upstream with unchanged sources
// keeps its servers. Safe for concurrent use.
func (d *discoverer) follow(c *config.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config = c
	old := d.watching
	d.watching = make(map[string]discoveredSources)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if !u.Discovers() {
			continue
		}
		key := sourcesKey(u)
		if there, ok := old[u.Name]; ok && there.key == key {
			d.watching[u.Name] = there
			delete(old, u.Name)
			continue
		}
		if there, ok := old[u.Name]; ok {
			there.stop()
			delete(old, u.Name)
		}
		ctx, stop := context.WithCancel(d.ctx)
		d.watching[u.Name] = discoveredSources{key, stop}
		troubled := func() bool { return d.server.Troubled(u.Name) }
		log := d.log.With().Str("upstream", u.Name).Logger()
		discovery.Watch(ctx, places(c, u, troubled), log, func(found []upstream.Target) {
			d.server.Discovered(u.Name, d.usable(u, found))
		})
	}
	for name, there := range old {
		there.stop()
		d.server.Discovered(name, nil)
	}
}

// usable returns the addresses of a list that can be game servers. DNS may answer with any address, also with one of
// this proxy's listeners: its own datagrams would return to it forever.
func (d *discoverer) usable(u *config.Upstream, found []upstream.Target) []upstream.Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, _ := netio.OwnAddresses() // none where the system does not list them
	var skipped []string
	found = slices.DeleteFunc(slices.Clone(found), func(t upstream.Target) bool {
		may := d.config.MayServe(u, t.Addr, own)
		if !may && len(skipped) < mostSkipped {
			skipped = append(skipped, t.Addr.String())
		}
		return !may
	})
	if len(skipped) > 0 {
		d.log.Warn().Str("upstream", u.Name).Strs("addresses", skipped).
			Msg("discovered addresses skipped: want game servers, not a listener of this proxy or a group of machines")
	}
	return found
}

// mostSkipped bounds the addresses in a line of the log.
const mostSkipped = 10

// sourcesKey returns a text that is equal for equal sources of servers with the same transport.
func sourcesKey(u *config.Upstream) string {
	key := fmt.Sprintf("%s\n%s\n%+v\n%+v", u.Resolver, u.Transport, u.Kubernetes, u.Agones)
	for _, place := range u.Discover {
		key += "\n" + place.String()
	}
	return key
}

// places returns the sources of an upstream. A relative path starts at the folder of the configuration.
func places(c *config.Config, u *config.Upstream, troubled func() bool) []discovery.Source {
	lookup := discovery.Lookup{Refresh: 10 * time.Minute, Troubled: troubled}
	if u.Resolver.IsValid() {
		lookup.Resolver = u.Resolver.String()
	}
	all := make([]discovery.Source, len(u.Discover))
	for i, p := range u.Discover {
		switch {
		case p.File != "":
			all[i] = discovery.File(c.Path(p.File))
		case p.Service != "":
			all[i] = discovery.Service(p.Service, lookup)
		default:
			all[i] = discovery.Host(p.Host, p.Port, lookup)
		}
	}
	return append(all, Clusters(c, u)...)
}

// Clusters returns the sources of an upstream in Kubernetes.
func Clusters(c *config.Config, u *config.Upstream) (all []discovery.Source) {
	if k := u.Kubernetes; k.On() {
		cluster := discovery.Cluster{Namespace: k.Namespace, Kubeconfig: c.Path(k.Kubeconfig)}
		all = append(all, discovery.Endpoints(cluster, k.Service, k.Port, string(u.Transport)))
	}
	if a := u.Agones; a.On() {
		cluster := discovery.Cluster{Namespace: a.Namespace, Kubeconfig: c.Path(a.Kubeconfig)}
		all = append(all, discovery.GameServers(cluster, discovery.GameServerOptions{
			Fleet: a.Fleet, Selector: a.Selector, Port: a.Port, Transport: string(u.Transport),
			States:  each.Of(a.States, func(s config.AgonesState) string { return string(s) }),
			Address: string(a.Address), Capacity: a.Capacity,
		}))
	}
	return all
}
