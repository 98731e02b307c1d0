package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

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
