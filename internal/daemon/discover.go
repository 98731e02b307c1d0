package daemon

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/discovery"
	"tidegate/internal/upstream"
	"tidegate/proxy"
)

// discoverer finds the servers that a configuration does not list, and reports them to a running proxy.
type discoverer struct {
	ctx    context.Context // its end ends the search
	server *proxy.Server
	log    zerolog.Logger

	mu       sync.Mutex                   // guards the fields below
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
	old := d.watching
	d.watching = make(map[string]discoveredSources)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if len(u.Discover) == 0 {
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
		discovery.Watch(ctx, places(u), d.log.With().Str("upstream", u.Name).Logger(), func(found []upstream.Target) {
			d.server.Discovered(u.Name, found)
		})
	}
	for name, there := range old {
		there.stop()
		d.server.Discovered(name, nil)
	}
}

// sourcesKey returns a text that is equal for equal sources.
func sourcesKey(u *config.Upstream) string {
	key := u.Resolver.String()
	for _, place := range u.Discover {
		key += "\n" + place.String()
	}
	return key
}

func places(u *config.Upstream) []discovery.Source {
	resolver := ""
	if u.Resolver.IsValid() {
		resolver = u.Resolver.String()
	}
	all := make([]discovery.Source, len(u.Discover))
	for i, p := range u.Discover {
		switch {
		case p.File != "":
			all[i] = discovery.File(p.File)
		case p.Service != "":
			all[i] = discovery.Service(p.Service, resolver)
		default:
			all[i] = discovery.Host(p.Host, p.Port, resolver)
		}
	}
	return all
}
