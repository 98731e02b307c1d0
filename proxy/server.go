package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"tidegate/netio"
)

// Options are how a Server runs.
type Options struct {
	Loops         int // Relays side by side, each with its own sockets; at least 1
	IO            netio.Options
	ReceiveBuffer int // kernel's, of each listening socket, in bytes; 0 means netio's default
	Log           zerolog.Logger
	HideAddresses bool // log the networks of players, not their addresses
}

// Server runs a proxy: one loop per core, sharing nothing.
type Server struct {
	loops []*loop
	addrs []netip.AddrPort
}

// Listen opens the sockets of all listeners. The settings must not change any more.
func Listen(s *Settings, o Options) (*Server, error) {
	server := &Server{}
	for i := range max(o.Loops, 1) {
		if err := server.addLoop(s, o, i); err != nil {
			for _, l := range server.loops {
				_ = l.poller.Close() // the error that matters is the one before
			}
			return nil, err
		}
	}
	return server, nil
}

func (s *Server) addLoop(settings *Settings, o Options, shard int) error {
	poller, err := netio.New(o.IO)
	if err != nil {
		return fmt.Errorf("open poller: %w", err)
	}
	relay := NewRelay(settings, RelayOptions{
		Shard: shard, Shards: o.Loops, Seed: rand.Uint64(), Log: o.Log, HideAddresses: o.HideAddresses,
	}, poller, time.Now())
	s.loops = append(s.loops, newLoop(relay, poller))
	for i := range settings.Listeners {
		l := &settings.Listeners[i]
		shared := o.Loops > 1
		addr, err := l.Addr, error(nil)
		switch {
		case shard > 0:
			addr = s.addrs[i] // with the port that the first loop was given
		case shared:
			addr, err = l.Transport.claim(poller, addr, settings, &o)
		}
		var socket netio.Socket
		if err == nil {
			socket, err = l.Transport.listen(poller, addr, shared, settings, &o)
		}
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		if shard == 0 {
			s.addrs = append(s.addrs, socket.Addr())
		}
		relay.Attach(i, socket)
	}
	return nil
}

// Addrs are the addresses of the listeners, in the order of the settings.
func (s *Server) Addrs() []netip.AddrPort { return s.addrs }

// Run serves until ctx is done, then says goodbye to every client and upstream, in their own protocols, and returns nil.
func (s *Server) Run(ctx context.Context) error {
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
			s.drain() // one loop less is no proxy: end the others too
		}
	}
	return errors.Join(errs...)
}

func (s *Server) drain() {
	for _, l := range s.loops {
		l.post((*Relay).Drain)
	}
}

// Snapshot is how things stand now. It waits for each loop's turn; after Run it has only zeros.
func (s *Server) Snapshot() Snapshot {
	var all Snapshot
	for _, l := range s.loops {
		l.ask(func(r *Relay, now time.Time) {
			all.add(r.Snapshot(now), l.poller.Stats())
		})
	}
	return all
}
