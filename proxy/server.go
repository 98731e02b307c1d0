package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	sessions "tidegate/session"
)

// Options are how a Server runs.
type Options struct {
	Loops         int // number of Relays, each with its own sockets; at least 1
	IO            netio.Options
	ReceiveBuffer int // the kernel's, of each listening socket, in bytes; 0 means netio's default
	Log           zerolog.Logger
	HideAddresses bool            // log the networks of clients, not their addresses
	Bans          *ratelimit.Bans // nil: there are no bans
	Kernel        Kernel          // the caller closes its parts after Run
	// Inherited are listening sockets that another process opened, for the listeners at their addresses. They come from
	// a service manager, or from the predecessor's Server.Files. The Server closes them.
	Inherited []*os.File
	// OthersGone is closed when no other process has sockets at the addresses of Inherited. Nil means never.
	OthersGone <-chan struct{}
}

// Server runs a proxy: loops that share no session and no socket.
type Server struct {
	loops     []*loop
	options   Options
	pools     upstream.Pools
	presence  Presence
	allowance *Allowance
	places    *sessions.Places
	keeper    keeper

	reloading  sync.Mutex    // held by Reload, and while listeners are closed
	deserted   chan struct{} // tells that a removed listener has no session in one loop
	handedOver bool          // guarded by reloading
	inherited  []inherited   // guarded by reloading
	captures   atomic.Int32  // captures that run
	mu         sync.Mutex    // guards the fields below
	settings   *Settings
	addrs      []netip.AddrPort // of the settings' listeners
}

// Listen opens the sockets of all listeners. The settings must not change afterwards.
func Listen(s *Settings, o Options) (*Server, error) {
	o.Loops = max(o.Loops, 1)
	if o.Bans == nil {
		o.Bans = ratelimit.NewBans(ratelimit.Terms{})
	}
	server := &Server{
		options: o, settings: s, addrs: make([]netip.AddrPort, len(s.Listeners)), deserted: make(chan struct{}, 1),
	}
	server.allowance, server.places = NewAllowance(time.Now(), rand.Uint64()), sessions.NewPlaces()
	server.keeper.modes = make(map[string]shield.Mode)
	server.pools.Wake = server.wake
	var err error
	if server.inherited, err = inherit(o.Inherited); err != nil {
		return nil, err
	}
	server.reserve(s)
	for i := range o.Loops {
		if err := server.addLoop(i); err != nil {
			for _, l := range server.loops {
				_ = l.poller.Close() // the earlier error matters more
			}
			server.disown()
			return nil, err
		}
	}
	server.spare(s, server.addrs)
	server.warnOfInherited()
	server.startKernel()
	return server, nil
}

// reserve makes room for the descriptors of all sessions and listeners in advance, since a loop should not wait for
// that.
func (s *Server) reserve(settings *Settings) {
	netio.Reserve(s.options.Loops * (settings.Limits.Sessions + len(settings.Listeners)))
}

func (s *Server) addLoop(shard int) error {
	poller, err := netio.New(s.options.IO)
	if err != nil {
		return fmt.Errorf("open poller: %w", err)
	}
	o := &s.options
	relay := NewRelay(s.settings, RelayOptions{
		Shard: shard, Shards: o.Loops, Seed: rand.Uint64(), Log: o.Log, HideAddresses: o.HideAddresses, Bans: o.Bans,
		Pools: &s.pools, Presence: &s.presence, Allowance: s.allowance, Places: s.places, Forwarder: o.Kernel.forwarder(),
		Gate: o.Kernel.gate(shard), Deserted: s.tellDeserted,
	}, poller, time.Now())
	loop := newLoop(relay, poller)
	if o.Kernel.Shield == nil && o.Kernel.Plain {
		loop.sampler = new(strangerSampler)
	}
	s.loops = append(s.loops, loop)
	for i := range s.settings.Listeners {
		l := &s.settings.Listeners[i]
		socket, err := s.open(shard, poller, l, s.addrs[i], s.settings)
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		s.addrs[i] = socket.Addr()
		relay.Attach(i, socket)
	}
	return nil
}

// open opens the socket of a listener for one loop. The first loop chooses the address, and the others open the same
// one.
func (s *Server) open(loop int, poller netio.Poller, l *Listener, addr netip.AddrPort,
	settings *Settings) (netio.Socket, error) {
	socket, err := s.adopt(loop, poller, l, addr, settings)
	if socket != nil || err != nil {
		return socket, err
	}
	o := &s.options
	shared := o.Loops > 1
	switch {
	case addr.IsValid():
	case shared:
		addr, err = l.Transport.claim(poller, l.Addr, settings, o)
	default:
		addr = l.Addr
	}
	if err != nil {
		return nil, err
	}
	return l.Transport.listen(poller, addr, shared, settings, o)
}

// keep stores the present settings.
func (s *Server) keep(settings *Settings, addrs []netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings, s.addrs = settings, addrs
}

// Addrs returns the addresses of the listeners, in the order of the settings. It is safe for concurrent use.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addrs
}

// Run serves until ctx is done. Then it admits no new clients, and waits for Settings.DrainGrace for sessions to end.
// It says goodbye to all remaining clients and upstreams in their own protocols, and returns nil.
func (s *Server) Run(ctx context.Context) error {
	unwatched, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go s.enforceBans(unwatched)
	go s.keepShield(unwatched)
	go s.sweep(unwatched)
	go s.awaitOthers(unwatched)
	defer s.disown()
	results := make(chan error, len(s.loops))
	for _, l := range s.loops {
		go func() { results <- l.run() }()
	}
	stop := context.AfterFunc(ctx, s.drain)
	defer stop()
	var errs []error
	for range s.loops {
		if err := <-results; err != nil {
			errs = append(errs, err)
			s.drain() // without one loop the proxy is broken: end the others too
		}
	}
	return errors.Join(errs...)
}

// enforceBans makes every loop check its sessions whenever the bans have changed, until ctx is done.
func (s *Server) enforceBans(ctx context.Context) {
	changed := s.options.Bans.Subscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			for _, l := range s.loops {
				l.post(stats.WorkBans, (*Relay).EnforceBans)
			}
		}
	}
}

// wake makes the loop of a shard, or all loops, take a turn. Loops call it.
func (s *Server) wake(shard int) {
	for i, l := range s.loops {
		if shard == i || shard == upstream.AllShards {
			l.poller.Wake()
		}
	}
}

func (s *Server) drain() {
	for _, l := range s.loops {
		l.post(stats.WorkDrain, func(r *Relay, now time.Time) { r.DrainBy(now, now.Add(r.settings.DrainGrace)) })
	}
}

// Snapshot returns the present state of all loops. It waits for each loop's turn. After Run it has only zeros.
func (s *Server) Snapshot() Snapshot {
	var all Snapshot
	for _, l := range s.loops {
		l.ask(stats.WorkList, func(r *Relay, now time.Time) {
			all.add(r.Snapshot(now), l.sockets())
		})
	}
	all.Kernel = stats.ReadKernel(s.options.Kernel.Shield, s.options.Kernel.Flows)
	all.Counters.AddForwarded(&all.Kernel)
	return all
}

// Bans returns the bans in force, for changes and subscriptions. It is safe for concurrent use.
func (s *Server) Bans() *ratelimit.Bans { return s.options.Bans }
