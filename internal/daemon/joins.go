package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/door"
	"tidegate/internal/filewatch"
	"tidegate/internal/filter"
	"tidegate/internal/joining"
	"tidegate/internal/pause"
	"tidegate/internal/policy"
	"tidegate/internal/setup"
	"tidegate/internal/signalling"
	"tidegate/internal/stray"
	"tidegate/internal/webrtc"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// joinServers serve the joins of NetherNet's clients over HTTP: one for each listener with that protocol, at the TCP
// port with the listener's number. A table of joins outlives reloads, as long as its listener stays.
type joinServers struct {
	log     zerolog.Logger
	foreign zerolog.Logger // of joins that other nodes have answered
	failed  *relay.JoinLog
	server  *proxy.Server
	bans    *ratelimit.Bans
	rules   atomic.Pointer[filter.Set] // about sources
	drains  atomic.Bool
	states  statuses
	seed    [32]byte                          // of the stacks' certificate
	share   atomic.Pointer[func(join []byte)] // with a fleet; nil: there is none
	all     sync.WaitGroup

	mu     sync.Mutex
	stop   context.CancelFunc           // of expire; nil: it does not run
	tables map[netip.AddrPort]joinTable // by the listener's address as in the settings
	ids    map[uint64]*joining.Tickets  // of the settings in force, by stray.ListenerID
	ports  []*net.TCPListener           // from a predecessor, until they are used
	open   map[netip.AddrPort]*joinServer
	room   *door.Room        // of the HTTP connections at all listeners
	host   *webrtc.Host      // nil until a route that terminates needs it
	key    *ecdsa.PrivateKey // of the offers to servers of upstreams without a file; nil until it is needed

	handing sync.Mutex // held while joins wait for a successor: a table that is made then would not wait
}

// joinTable has the joins of a listener, which may have been removed since.
type joinTable struct {
	*joining.Tickets
	id uint64 // stray.ListenerID
}

// joinServer is the HTTP side of one listener.
type joinServer struct {
	terms atomic.Pointer[joinTerms]
	files joinFiles
	raw   *net.TCPListener // nil: another process has the port
	stop  func()
}

// joinFiles are the settings with which a joinServer begins.
type joinFiles struct {
	name, route                           string // the listener's name, and its route's
	certificate, key, identityKey, issuer string
	identity                              config.Identity
	own                                   bool
}

// joinTerms are the settings of a joinServer that a reload may change.
type joinTerms struct {
	upstream string
	public   []netip.Addr
	port     uint16 // of the datagrams
	pong     *relay.Pong
	behind   bool // the servers are behind NAT or in containers
}

func newJoinServers(log zerolog.Logger, hide bool) *joinServers {
	return &joinServers{
		log: log, tables: make(map[netip.AddrPort]joinTable), open: make(map[netip.AddrPort]*joinServer),
		ids:     make(map[uint64]*joining.Tickets),
		room:    door.NewRoom(signalling.DefaultConnections),
		foreign: log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute}),
		failed:  relay.NewJoinLog(time.Now(), log, hide, rand.Uint64()),
	}
}

func isEdge(l *relay.Listener) bool { return slices.Contains(l.Protocols, relay.NetherNet) }

// prepare gives the listeners of new settings their tables of joins, and routes that terminate what runs stacks.
func (s *joinServers) prepare(settings *relay.Settings, c *config.Config) {
	s.handing.Lock()
	defer s.handing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range settings.Listeners {
		l := &settings.Listeners[i]
		s.terminate(l, settings, c)
		if !isEdge(l) {
			continue
		}
		if l.Joins = s.tables[l.Addr].Tickets; l.Joins == nil {
			limits := joining.DefaultLimits
			limits.Sessions = max(limits.Sessions, 2*settings.Limits.Sessions)
			l.Joins = joining.NewTickets(limits, s.ended)
			s.name(l)
		}
	}
}

// name notes the name that other processes know a listener's joins by.
func (s *joinServers) name(l *relay.Listener) {
	id := stray.ListenerID(l.Name, l.Addr.Port())
	s.tables[l.Addr], s.ids[id] = joinTable{l.Joins, id}, l.Joins
	l.Joins.ShareWith(s.sharer(id))
}

// ended logs a join that came to nothing. The log of sessions has the others.
func (s *joinServers) ended(j joining.Join) {
	if j.Stage == joining.Ended || j.Stage == joining.Lost {
		return
	}
	s.failed.Failed(time.Now(), j)
}

// follow opens and closes the HTTP servers, by the settings in force. addrs are the listeners' addresses.
func (s *joinServers) follow(settings *relay.Settings, addrs []netip.AddrPort, c *config.Config) {
	s.rules.Store(settings.Filter)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		s.all.Go(func() { s.expire(ctx) })
	}
	s.states.log, s.states.server = s.log, s.server
	s.states.follow(settings, addrs)
	stays := make(map[netip.AddrPort]bool)
	clear(s.ids)
	for i := range settings.Listeners {
		l := &settings.Listeners[i]
		if !isEdge(l) {
			continue
		}
		stays[l.Addr] = true
		s.name(l)
		if one := s.open[l.Addr]; one != nil && one.files != filesOf(l, c) {
			one.stop()
			delete(s.open, l.Addr)
		}
		if s.open[l.Addr] == nil {
			one, err := s.start(l, addrs[i], c)
			if err != nil {
				s.log.Error().Str("listener", l.Name).Stringer("address", addrs[i]).Err(err).
					Msg("joins are not served; NetherNet clients cannot come in")
				continue
			}
			s.open[l.Addr] = one
		}
		s.open[l.Addr].terms.Store(termsOf(l, addrs[i], c))
	}
	for addr, one := range s.open {
		if !stays[addr] {
			one.stop()
			delete(s.open, addr)
		}
	}
	for addr, table := range s.tables {
		if waiting, sessions := table.Sizes(); !stays[addr] && waiting+sessions == 0 {
			delete(s.tables, addr)
		}
	}
}

// expire ends the joins whose players do not come, also those of removed listeners: they hold places at servers.
func (s *joinServers) expire(ctx context.Context) {
	for now := range pause.Every(ctx, expiryPeriod) {
		s.mu.Lock()
		tables := slices.Collect(maps.Values(s.tables))
		s.mu.Unlock()
		for _, table := range tables {
			table.Expire(now)
		}
		s.failed.CatchUp(now)
	}
}

// set returns the configuration of a listener, which has the name of all its ports.
func set(l *relay.Listener, c *config.Config) *config.Listener {
	i := slices.IndexFunc(c.Listeners, func(one config.Listener) bool { return one.Name == l.Name })
	if i < 0 {
		return new(config.Listener) // removed, with sessions of a predecessor
	}
	return &c.Listeners[i]
}

func filesOf(l *relay.Listener, c *config.Config) joinFiles {
	from := set(l, c)
	return joinFiles{
		l.Name, l.Route.Name, from.TLSCertificate, from.TLSKey, from.IdentityKey, from.IdentityIssuer, from.Identity,
		l.Route.Mode == policy.ModeTerminate,
	}
}

func termsOf(l *relay.Listener, at netip.AddrPort, c *config.Config) *joinTerms {
	t := &joinTerms{upstream: l.Route.Upstream.Name, port: at.Port(), pong: l.Pong}
	for _, public := range set(l, c).PublicAddresses {
		t.public = append(t.public, public.Addr())
	}
	t.behind = upstreamOf(c, t.upstream).NAT
	return t
}

// start opens the HTTP server of a listener.
func (s *joinServers) start(l *relay.Listener, at netip.AddrPort, c *config.Config) (*joinServer, error) {
	one := &joinServer{files: filesOf(l, c)}
	one.terms.Store(termsOf(l, at, c))
	o := signalling.Options{
		Tickets: l.Joins, Route: l.Route.Name, Room: s.room, Seed: rand.Uint64(),
		Draining: s.drains.Load,
		Allows:   func(a netip.Addr) bool { return s.allows(l.Name, a) },
		Pick: func(client netip.Addr, joins bool, failed netip.AddrPort) (signalling.Backend, error) {
			terms := one.terms.Load()
			addr, free, err := s.server.Choose(terms.upstream, client, joins, failed)
			return signalling.Backend{Addr: addr, AnyAddress: terms.behind, Free: free}, err
		},
		Failed: func(server netip.AddrPort, begun time.Time, fault error) {
			s.server.Failed(one.terms.Load().upstream, server, begun, causeOf(fault))
		},
		Candidates: func(local netip.Addr) []netip.AddrPort { return one.terms.Load().candidates(local) },
	}
	ctx, stop := context.WithCancel(context.Background())
	one.stop = stop
	var err error
	if one.files.own {
		if o.Own, err = s.own(one, l, c); err != nil {
			stop()
			return nil, err
		}
	}
	if one.files.certificate != "" {
		certificate, err := setup.Certificate(c, set(l, c))
		if err != nil {
			stop()
			return nil, err
		}
		o.Certificate = certificate.Get
		files := []string{one.files.certificate, one.files.key}
		s.all.Go(func() { s.watch(ctx, "certificate", certificate.Load, c, files) })
	}
	if one.raw, err = s.listen(at); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
		stop()
		return nil, fmt.Errorf("listen for joins: %w", err)
	}
	port, server := one.raw, signalling.New(o)
	if one.files.own {
		load := func() error { return s.renew(server, one, o.Own.Key, l, c) }
		files := []string{one.files.identityKey, one.files.issuer}
		s.all.Go(func() { s.watch(ctx, "identity", load, c, files) })
	}
	s.all.Go(func() {
		if port == nil {
			if port = s.await(ctx, one, at); port == nil {
				return
			}
		}
		if err := server.Serve(ctx, port); err != nil {
			s.log.Error().Str("listener", l.Name).Err(err).Msg("joins are no longer served")
		}
	})
	return one, nil
}

// allows reports whether no ban and no rule about sources keeps an address out.
func (s *joinServers) allows(listener string, a netip.Addr) bool {
	return s.bans.Find(time.Now(), a) == nil && s.rules.Load().Source(listener, a).Verdict < ratelimit.Drop
}

// candidates are the addresses that clients are told: the public ones, or the one that the client has reached.
func (t *joinTerms) candidates(local netip.Addr) []netip.AddrPort {
	if len(t.public) == 0 {
		return []netip.AddrPort{netip.AddrPortFrom(local.Unmap(), t.port)}
	}
	all := make([]netip.AddrPort, len(t.public))
	for i, a := range t.public {
		all[i] = netip.AddrPortFrom(a, t.port)
	}
	return all
}

// figures returns the joins of each listener, of all its ports together.
func (s *joinServers) figures() map[string]admin.Joins {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]admin.Joins)
	for addr, one := range s.open {
		sum := all[one.files.name]
		waiting, _ := s.tables[addr].Sizes()
		sum.Waiting += waiting
		if sum.Stages == nil {
			sum.Stages = make(map[string]uint64)
		}
		for stage, n := range s.tables[addr].Counts() {
			sum.Stages[joining.Stage(stage).Name()] += n
		}
		all[one.files.name] = sum
	}
	return all
}

// close ends all HTTP servers, and waits for their last answers.
func (s *joinServers) close() {
	s.mu.Lock()
	for addr, one := range s.open {
		one.stop()
		delete(s.open, addr)
	}
	if s.stop != nil {
		s.stop()
	}
	s.states.close()
	s.mu.Unlock()
	s.all.Wait()
}

// terminate gives a listener on a route that terminates what runs the stacks of its clients and servers. The first such
// listener makes it. The caller has the lock.
func (s *joinServers) terminate(l *relay.Listener, settings *relay.Settings, c *config.Config) {
	u := l.Route.Upstream
	joins := u.Protocol == relay.NetherNet
	if l.Route.Mode != policy.ModeTerminate || !joins && !isEdge(l) {
		return
	}
	if s.host == nil {
		limits := webrtc.DefaultLimits
		limits.Stacks = max(limits.Stacks, 2*settings.Limits.Sessions)
		host, err := webrtc.NewHost(limits, s.secretOf(l, c))
		if err != nil {
			s.log.Error().Err(err).Msg("no NetherNet connection of routes that terminate can begin")
			return
		}
		s.host = host
	}
	l.Stacks = s.host
	if _, err := s.host.Certify(s.secretOf(l, c)); err != nil { // joins of a predecessor may need it
		s.log.Error().Err(err).Str("listener", l.Name).Msg("NetherNet clients cannot come in")
	}
	if joins && u.Joiner == nil {
		s.join(u, s.host, c)
	}
}

var errNoHost = errors.New("there is no certificate")

// own returns how a listener answers joins itself.
func (s *joinServers) own(one *joinServer, l *relay.Listener, c *config.Config) (*signalling.Own, error) {
	if s.host == nil {
		return nil, errNoHost
	}
	own, err := setup.Identity(c, set(l, c))
	if err != nil {
		return nil, err
	}
	if own.Fingerprint, err = s.host.Certify(s.secretOf(l, c)); err != nil {
		return nil, err
	}
	own.Status = func() []byte {
		if pong := one.terms.Load().pong; pong != nil {
			return pong.Text()
		}
		return nil
	}
	return own, nil
}

// renew reads the files of a listener's identity again. After an error the identity stays as it was.
func (s *joinServers) renew(server *signalling.Server, one *joinServer, key *ecdsa.PrivateKey, l *relay.Listener,
	c *config.Config) error {
	own, err := s.own(one, l, c)
	if err != nil {
		return err
	}
	if one.files.identityKey == "" { // otherwise the key is new each time
		own.Key = key
	}
	server.Renew(own)
	return nil
}

// watch loads again when files change, until ctx is done.
func (s *joinServers) watch(ctx context.Context, what string, load func() error, c *config.Config, names []string) {
	var files []string
	for _, name := range names {
		if name != "" {
			files = append(files, c.Path(name))
		}
	}
	if len(files) == 0 {
		return
	}
	w, err := filewatch.New(files...)
	if err != nil {
		s.log.Warn().Err(err).Str("what", what).Msg("changes of files will not be noticed")
		return
	}
	w.Run(ctx, func(file string) {
		if err := load(); err != nil {
			s.log.Warn().Err(err).Str("file", file).Msg(what + " could not be read")
			return
		}
		s.log.Info().Str("file", file).Msg(what + " read again")
	})
}

// secretOf returns the secret of the stacks' certificate. The nodes of a fleet share it with their identity.
func (s *joinServers) secretOf(l *relay.Listener, c *config.Config) [32]byte {
	if file := set(l, c).IdentityKey; file != "" {
		if key, err := setup.IdentityKey(c, file); err == nil {
			b, _ := key.Bytes() // an error needs another curve
			return sha256.Sum256(b)
		}
	}
	return s.seed
}
