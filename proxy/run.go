package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/internal/pause"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Listen opens the sockets of all listeners. The settings must not change afterwards.
func Listen(s *relay.Settings, o Options) (*Server, error) {
	o.Loops = max(o.Loops, 1)
	if o.Bans == nil {
		o.Bans = ratelimit.NewBans(ratelimit.Terms{})
	}
	server := &Server{
		options: o, settings: s, addrs: make([]netip.AddrPort, len(s.Listeners)), deserted: make(chan struct{}, 1),
		shared: relay.NewShared(time.Now(), rand.Uint64()),
	}
	server.keeper.modes = make(map[string]shield.Mode)
	server.shared.Pools.Wake, server.shared.Pools.Changed = server.wake, server.serverChanged
	var err error
	if server.inherited, err = inherit(o.Inherited); err != nil {
		return nil, err
	}
	server.reserve(s)
	for i := range o.Loops {
		if err := server.addLoop(i); err != nil {
			server.Close()
			return nil, err
		}
	}
	server.spare(s, server.addrs)
	server.warnOfInherited()
	if !o.Successor {
		server.startKernel()
	}
	return server, nil
}

// Close closes the sockets of a Server that will not run, or whose Run has returned.
func (s *Server) Close() {
	for _, l := range s.loops {
		_ = l.poller.Close() // no data is left to lose
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.disown()
}

func (s *Server) addLoop(shard int) error {
	poller, err := netio.New(s.options.IO)
	if err != nil {
		return fmt.Errorf("open poller: %w", err)
	}
	o := &s.options
	options := o.Machine
	options.Shard, options.Shards, options.Seed, options.Shared = shard, o.Loops, rand.Uint64(), s.shared
	options.Log, options.Access, options.HideAddresses, options.Bans = o.Log, o.Access, o.HideAddresses, o.Bans
	options.Gate, options.Deserted = o.Kernel.gate(shard), s.tellDeserted
	if o.Kernel.Flows != nil {
		options.Forwarder = o.Kernel.Flows
	}
	machine := relay.New(s.settings, options, poller, time.Now())
	loop := newLoop(machine, poller, o.Kernel.gate(shard))
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
		machine.Attach(i, socket)
	}
	return nil
}

// Run serves until ctx is done. Then it admits no new clients, and waits for Settings.DrainGrace for sessions to end.
// It says goodbye to all remaining clients and upstreams in their own protocols, and returns nil.
func (s *Server) Run(ctx context.Context) error {
	unwatched, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go s.enforceBans(unwatched)
	go s.keepShield(unwatched)
	go s.sweep(unwatched)
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
	for range pause.On(ctx, s.options.Bans.Subscribe()) {
		for _, l := range s.loops {
			l.post(stats.WorkBans, (*relay.Relay).EnforceBans)
		}
	}
}

func (s *Server) drain() {
	for _, l := range s.loops {
		l.post(stats.WorkDrain, func(r *relay.Relay, now time.Time) { r.DrainBy(now, now.Add(r.Settings().DrainGrace)) })
	}
}

// Options are how a Server runs.
type Options struct {
	Loops         int // number of Relays, each with its own sockets; at least 1
	IO            netio.Options
	ReceiveBuffer int // the kernel's, of each listening socket, in bytes; 0 means netio's default
	Log           zerolog.Logger
	Access        zerolog.Logger  // one line for each session that ends; zero: none
	HideAddresses bool            // log the networks of clients, not their addresses
	Bans          *ratelimit.Bans // nil: there are no bans
	Kernel        Kernel          // the caller closes its parts after Run
	Machine       relay.Options   // of all Relays; the Server sets what differs between them, and what it has itself
	// ServerChanged hears of servers that change between up, failing, refusing and down. It must not block. nil: none.
	ServerChanged func(upstream.Change)
	// Inherited are listening sockets that another process opened, for the listeners at their addresses. They come from
	// a service manager, or from the predecessor's Server.Listening. The Server closes them.
	Inherited []int // descriptors
	Held      bool  // a service manager holds Inherited too
	Successor bool  // Import and TakeKernel will be called
}

// Server runs a proxy: loops that share no session and no socket.
type Server struct {
	loops   []*loop
	options Options
	shared  *relay.Shared // by the Relays
	keeper  keeper
	onDrain atomic.Pointer[func(string, netip.AddrPort, bool) bool] // nil: none

	reloading  sync.Mutex    // held by Reload, and while listeners are closed
	deserted   chan struct{} // tells that a removed listener has no session in one loop
	handedOver bool          // guarded by reloading
	inherited  []inherited   // guarded by reloading
	precopied  atomic.Bool   // the next Freeze is for a successor that has the last pre-copy
	mu         sync.Mutex    // guards the fields below
	settings   *relay.Settings
	addrs      []netip.AddrPort // of the settings' listeners
}

// keep stores the present settings.
func (s *Server) keep(settings *relay.Settings, addrs []netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings, s.addrs = settings, addrs
}

// Loops returns the number of loops.
func (s *Server) Loops() int { return len(s.loops) }

// Addrs returns the addresses of the listeners, in the order of the settings. It is safe for concurrent use.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addrs
}

// wake makes the loop of a shard, or all loops, take a turn. Loops call it.
func (s *Server) wake(shard int) {
	for i, l := range s.loops {
		if shard == i || shard == upstream.AllShards {
			l.poller.Wake()
		}
	}
}
