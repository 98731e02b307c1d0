package daemon

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/config"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/pause"
	"tidegate/internal/record"
	"tidegate/internal/setup"
	"tidegate/internal/signalling"
	"tidegate/internal/webrtc"
	"tidegate/proxy/relay"
)

// The joins of NetherNet's clients go on at other processes: at a successor, or at another node of the fleet, where the
// client's datagrams arrive.

// givenJoin is a join for another process.
type givenJoin struct {
	Listener uint64              `cbor:"1,keyasint"` // stray.ListenerID
	Ticket   joining.SavedTicket `cbor:"2,keyasint"`
	Came     bool                `cbor:"3,keyasint,omitempty"` // its player is at the sender
}

// sharer tells the fleet of a listener's joins.
func (s *joinServers) sharer(listener uint64) joining.Share {
	return func(v *joining.SavedTicket, came bool) {
		if share := s.share.Load(); share != nil {
			(*share)(record.Append(nil, &givenJoin{listener, *v, came}))
		}
	}
}

// lend takes a join of another node.
func (s *joinServers) lend(join []byte) {
	v, table, err := s.read(join)
	switch {
	case err == nil:
		table.Lend(time.Now(), &v.Ticket, v.Came)
	case table != nil: // its player comes in vain if the datagrams arrive here
		table.Count(joining.Foreign)
		s.foreign.Warn().Err(err).Str("route", v.Ticket.Route).Msg("joins that other nodes have answered cannot go on here")
	}
}

// takeLate takes a join that the predecessor has answered since it gave the others.
func (s *joinServers) takeLate(join []byte) {
	v, table, err := s.read(join)
	if table != nil {
		table.Count(joining.Asked)
		table.Count(joining.Answered)
		if err != nil {
			table.Count(joining.Failed)
		} else {
			table.Restore(time.Now(), []joining.SavedTicket{v.Ticket})
		}
	}
	if err != nil {
		s.ended(joining.Join{
			ID: v.Ticket.ID, Route: v.Ticket.Route, Client: v.Ticket.Client, Server: v.Ticket.Server,
			Stage: joining.Failed, Reason: "the predecessor has answered it: " + err.Error(),
		})
	}
}

var errNoListener = errors.New("no listener here has such joins")

// read reads a join, and returns its table. The error says why this process cannot go on with it.
func (s *joinServers) read(join []byte) (v givenJoin, table *joining.Tickets, err error) {
	if err := record.Read(join, &v); err != nil {
		return v, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	table = s.ids[v.Listener]
	switch digest := v.Ticket.Certificate; {
	case table == nil:
		return v, nil, errNoListener
	case digest != "" && (s.host == nil || !s.host.Has(digest)):
		return v, table, webrtc.ErrCertificate
	}
	return v, table, nil
}

// hold lets all answers wait for release. The joins that are answered from then on go to heir; nil: they stay.
func (s *joinServers) hold() (release func(heir func(join []byte) error)) {
	s.handing.Lock()
	s.mu.Lock()
	held := slices.Collect(maps.Values(s.tables))
	s.mu.Unlock()
	for _, table := range held {
		table.Hold()
	}
	return func(heir func([]byte) error) {
		defer s.handing.Unlock()
		for _, table := range held {
			var give func(v *joining.SavedTicket) error
			if heir != nil {
				give = func(v *joining.SavedTicket) error { return heir(record.Append(nil, &givenJoin{table.id, *v, false})) }
			}
			table.Release(give)
		}
	}
}

// copyPorts returns copies of the TCP ports, for a successor.
func (s *joinServers) copyPorts() (copies []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.open {
		if one.raw == nil {
			continue // the successor waits for the port, too
		}
		raw, err := one.raw.SyscallConn()
		if err != nil {
			continue // it has closed
		}
		_ = raw.Control(func(fd uintptr) {
			if fd, err := netio.Duplicate(int(fd)); err == nil { // otherwise the successor opens the port
				copies = append(copies, fd)
			}
		})
	}
	return copies
}

// takePorts takes the TCP ports of joins out of the sockets that a predecessor or a service manager has given.
func (s *joinServers) takePorts(sockets []int, settings *relay.Settings) (rest []int) {
	return slices.DeleteFunc(sockets, func(fd int) bool {
		at, stream, err := netio.BoundAddress(fd)
		if err != nil || !stream || !slices.ContainsFunc(settings.Listeners, func(l relay.Listener) bool {
			return isEdge(&l) && isSamePort(at, l.Addr)
		}) {
			return false
		}
		file := os.NewFile(uintptr(fd), "joins")
		defer func() { _ = file.Close() }()
		if l, err := net.FileListener(file); err == nil {
			s.ports = append(s.ports, l.(*net.TCPListener))
		}
		return true
	})
}

// isSamePort reports whether a TCP port is that of a listener. At all addresses of a machine, IPv4 and IPv6 share it.
func isSamePort(tcp, listener netip.AddrPort) bool {
	a, b := tcp.Addr().Unmap(), listener.Addr().Unmap()
	return tcp.Port() == listener.Port() && (a == b || a.IsUnspecified() && b.IsUnspecified())
}

// listen returns the TCP port of a listener.
func (s *joinServers) listen(at netip.AddrPort) (l *net.TCPListener, err error) {
	for i, one := range s.ports {
		if isSamePort(one.Addr().(*net.TCPAddr).AddrPort(), at) {
			s.ports = slices.Delete(s.ports, i, i+1)
			return one, nil
		}
	}
	return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
}

const (
	expiryPeriod = time.Second
	portPause    = 20 * time.Millisecond
	portTime     = 2 * time.Second // in which a predecessor or an earlier server leaves a TCP port
	portPeriod   = time.Minute     // between two log lines about a port that is not left
)

// await opens a TCP port that another process has: a predecessor that does not give its port leaves it. At the end
// of ctx, it returns nil.
func (s *joinServers) await(ctx context.Context, one *joinServer, at netip.AddrPort) *net.TCPListener {
	warn := time.Now().Add(portTime)
	for now := range pause.Every(ctx, portPause) {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			one.raw = l
			s.log.Info().Str("listener", one.files.name).Stringer("address", at).Msg("the port is free; joins are served")
			return l
		}
		if now.After(warn) {
			warn = now.Add(portPeriod)
			s.log.Error().Str("listener", one.files.name).Stringer("address", at).Err(err).
				Msg("joins are not served yet; NetherNet clients cannot come in")
		}
	}
	return nil
}

// calls implements relay.Joiner for the servers of an upstream. The Host has Dial.
type calls struct {
	caller *signalling.Caller
	*webrtc.Host
}

// Join implements relay.Joiner.
func (c *calls) Join(server netip.AddrPort, wake func()) relay.Question {
	ctx, cancel := context.WithCancel(context.Background())
	q := &question{cancel: cancel}
	go func() {
		defer cancel()
		answer, err := c.caller.Join(ctx, server)
		q.mu.Lock()
		q.answer, q.err = answer, err
		q.mu.Unlock()
		wake()
	}()
	return q
}

// question implements relay.Question.
type question struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	answer *nethernet.Answer
	err    error
}

// Take implements relay.Question.
func (q *question) Take() (*nethernet.Answer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answer, q.err
}

// Abandon implements relay.Question.
func (q *question) Abandon() { q.cancel() }

// join lets an upstream's servers be joined. The caller has the lock.
func (s *joinServers) join(u *relay.Upstream, host *webrtc.Host, c *config.Config) {
	of := upstreamOf(c, u.Name)
	key, err := s.key, error(nil)
	if of.IdentityKey != "" || key == nil {
		key, err = setup.IdentityKey(c, of.IdentityKey)
	}
	if err != nil {
		s.log.Error().Str("upstream", u.Name).Err(err).Msg("NetherNet servers cannot be joined")
		return
	}
	if of.IdentityKey == "" {
		s.key = key
	}
	u.Joiner = &calls{signalling.NewCaller(key, host.Fingerprint(), of.NAT), host}
}

// upstreamOf returns the configuration of an upstream, which has the name of its first port. The names of others have
// their port after it.
func upstreamOf(c *config.Config, name string) *config.Upstream {
	for i := range c.Upstreams {
		if u := &c.Upstreams[i]; name == u.Name || strings.HasPrefix(name, u.Name+":") {
			return u
		}
	}
	return new(config.Upstream) // removed, with sessions of a predecessor
}
