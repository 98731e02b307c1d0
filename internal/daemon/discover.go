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

// discoverer looks for the servers that a configuration does not list, and tells a running proxy of them.
type discoverer struct {
	ctx    context.Context // until when it looks
	server *proxy.Server
	log    zerolog.Logger

	mu       sync.Mutex                  // guards what follows
	watching map[string]discoveredPlaces // by upstream
}

// discoveredPlaces are where an upstream's servers are looked for.
type discoveredPlaces struct {
	key  string // tells them from others
	stop context.CancelFunc
}

// follow looks where a configuration says, in place of where the last one said. An upstream whose places are as before
// goes on with what it has found. Safe for concurrent use.
func (d *discoverer) follow(c *config.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.watching
	d.watching = make(map[string]discoveredPlaces)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if len(u.Discover) == 0 {
			continue
		}
		key := placesKey(u)
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
		d.watching[u.Name] = discoveredPlaces{key, stop}
		discovery.Watch(ctx, places(u), d.log.With().Str("upstream", u.Name).Logger(), func(found []upstream.Target) {
			d.server.Discovered(u.Name, found)
		})
	}
	for name, there := range old {
		there.stop()
		d.server.Discovered(name, nil)
	}
}

// placesKey is a text that is equal for equal places.
func placesKey(u *config.Upstream) string {
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
