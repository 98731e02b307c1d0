package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"

	"tidegate/internal/door"
	"tidegate/internal/pause"
)

// Embedded configures a NATS server in this process. It forms a cluster with those of the other nodes.
type Embedded struct {
	Host   string   // address for the other nodes
	Port   int      // 0: none, since there are no other nodes
	Peers  []string // host:port of all nodes
	Secret string   // that all nodes share
	Store  string   // folder

	advertise string // host:port that other nodes tell one another; a test cuts the paths of Peers alone
}

// Bounds of an embedded server.
const (
	maxMemory = 64 << 20        // bytes of streams in memory
	maxStore  = 2 << 30         // bytes on disk
	authTime  = 2 * time.Second // from a connection to the secret
	stopTime  = 10 * time.Second
)

// routeUser is the name by which embedded servers know one another.
const routeUser = "tidegate"

// embedded is a NATS server in this process. Its methods do nothing if it is nil.
type embedded struct {
	*server.Server
	user, password string        // of this process; others cannot know them
	listen         string        // host:port for the other nodes; empty: none
	conns          int           // the most connections there
	unlisten       func()        // closes listen, and waits for the end of its connections
	locked         chan struct{} // closed when lock has ended
	routes         *door.Lock    // of the server's own port for them; nil: none
	log            zerolog.Logger
	fault          *atomic.Pointer[string] // why it does not run; nil: it runs, or nothing is known
}

// newEmbedded makes a server that is not started. One that stands in for the node's own has no port that other nodes
// know, and no streams: it goes to them.
func newEmbedded(o *Options, standsIn bool) (*embedded, error) {
	e := o.Embedded
	s := &embedded{
		user: rand.Text(), password: rand.Text(), conns: door.Conns + 2*len(e.Peers), unlisten: func() {}, log: o.Log,
		locked: make(chan struct{}), fault: new(atomic.Pointer[string]),
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(s.password), bcrypt.MinCost)
	if err != nil {
		return nil, err
	}
	options := &server.Options{
		ServerName: o.Node, NoSigs: true, MaxPayload: 1 << 20,
		// Routes need a client port (server.StartRouting waits for it). Only this process has its password.
		Host: "127.0.0.1", Port: server.RANDOM_PORT, Username: s.user, Password: string(hash),
		MaxConn: door.Conns, AuthTimeout: authTime.Seconds(),
		JetStream: !standsIn, StoreDir: e.Store, JetStreamMaxMemory: maxMemory, JetStreamMaxStore: maxStore,
	}
	if standsIn {
		options.ServerName += "-" + rand.Text()
	}
	if len(e.Peers) > 1 {
		// NATS has no bound of routes, so it listens on loopback, and a front counts the connections of other nodes.
		options.Cluster = server.ClusterOpts{
			Name: o.Name, Host: "127.0.0.1", Port: server.RANDOM_PORT, Username: routeUser, Password: e.Secret,
			PoolSize: -1, PingInterval: patience, MaxPingsOut: 2, AuthTimeout: authTime.Seconds(), NoAdvertise: standsIn,
			Advertise: cmp.Or(e.advertise, e.self(o.Node)),
		}
		if !standsIn {
			s.listen = net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
		}
		for _, peer := range e.Peers {
			options.Routes = append(options.Routes,
				&url.URL{Scheme: "nats-route", User: url.UserPassword(routeUser, e.Secret), Host: peer})
		}
	}
	if o.Certificate != "" {
		config, err := server.GenTLSConfig(&server.TLSConfigOpts{
			CertFile: o.Certificate, KeyFile: o.Key, CaFile: o.CA, Verify: true,
		})
		if err != nil {
			return nil, fmt.Errorf("fleet.certificate: %w", err)
		}
		options.Cluster.TLSConfig, options.Cluster.TLSTimeout = config, patience.Seconds()
	}
	if s.Server, err = server.NewServer(options); err != nil {
		return nil, fmt.Errorf("embedded NATS: %w", err)
	}
	lines := o.Log.Sample(&zerolog.BurstSampler{Burst: serverLines, Period: linesPeriod})
	s.SetLoggerV2(serverLog{lines, s.fault}, false, false, false)
	return s, nil
}

// self returns the address of this node that other nodes tell one another: the entry of Peers that looks like it, or
// any one with its port. Nodes do not dial what their own Peers have.
func (e *Embedded) self(node string) (at string) {
	own, _ := net.InterfaceAddrs() // without them, the names decide
	at = net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
	for _, peer := range slices.Backward(e.Peers) {
		host, port, _ := net.SplitHostPort(peer)
		local := slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(net.ParseIP(host))
		})
		switch {
		case port != strconv.Itoa(e.Port):
		case host == e.Host, host == node, strings.HasPrefix(host, node+"."), local:
			return peer
		default:
			at = peer
		}
	}
	return at
}

// client returns the options of a connection inside the process.
func (s *embedded) client() []nats.Option {
	return []nats.Option{nats.InProcessServer(s), nats.UserInfo(s.user, s.password)}
}

// start starts the server, which reads the disk first. If another program has its port, it tries again until ctx is
// done. The function that it returns waits for the end of that.
func (s *embedded) start(ctx context.Context) (wait func()) {
	if s == nil || s.try() {
		return func() {}
	}
	return runs(func() {
		for pause.For(ctx, retryEvery) && !s.try() {
		}
	})
}

// try starts the server if the port for the other nodes is free.
func (s *embedded) try() bool {
	if s.listen != "" {
		l, err := net.Listen("tcp", s.listen)
		if err != nil {
			text := fmt.Sprintf("fleet.listen: %v; free the port, the embedded server tries again", err)
			if s.fault.Swap(&text) == nil {
				s.log.Error().Err(err).Msg("embedded NATS server has no port; it tries again")
			}
			return false
		}
		s.front(l)
	}
	s.fault.Store(nil)
	s.Start()
	go s.lock()
	return true
}

// lock keeps other users of the machine from the server's own ports on loopback, as long as it runs.
func (s *embedded) lock() {
	for !s.ReadyForConnections(patience) && s.Running() {
	}
	client, _ := s.Addr().(*net.TCPAddr)
	for i, at := range []*net.TCPAddr{client, s.ClusterAddr()} {
		if at == nil { // it is alone, or has ended
			continue
		}
		lock, err := door.NewLock(at.AddrPort())
		if err != nil {
			s.log.Warn().Err(err).Msg("other users of this machine can connect to the embedded NATS server")
			continue
		}
		defer lock.Close()
		if i == 1 {
			s.routes = lock
		}
	}
	close(s.locked)
	s.WaitForShutdown()
}

// dial connects to the server in the name of another node.
func (s *embedded) dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-s.locked:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.routes != nil {
		return s.routes.Dial(ctx)
	}
	at := s.ClusterAddr()
	if at == nil {
		return nil, errors.New("the embedded NATS server does not listen")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", at.String())
}

// front passes connections of a listener on to the server, until unlisten.
func (s *embedded) front(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	front := door.Front{Proof: 2 * authTime, Dial: s.dial}
	ended := runs(func() { front.Serve(ctx, door.Bound(l, s.conns)) })
	s.unlisten = func() {
		cancel()
		ended()
	}
}

// cause returns the server's fault, which explains an error better. Without a fault it returns the error.
func (s *embedded) cause(err error) error {
	if s != nil {
		if fault := s.fault.Load(); fault != nil {
			return errors.New(*fault)
		}
	}
	return err
}

// stop ends the server, and waits until its files are written. A server that hangs must not keep the process: it reads
// its files again at the next start.
func (s *embedded) stop() {
	if s == nil {
		return
	}
	s.unlisten()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Shutdown()
		s.WaitForShutdown()
	}()
	select {
	case <-ended:
	case <-time.After(stopTime):
		s.log.Error().Msg("embedded NATS server does not end; left behind")
	}
}

// Bound of the lines of an embedded server in our log. Strangers at its port can cause any number of them.
const (
	serverLines = 10
	linesPeriod = time.Minute
)

// serverLog writes the errors of an embedded server to our log. A fatal error of the server does not end this process.
type serverLog struct {
	log   zerolog.Logger
	fault *atomic.Pointer[string] // of the server
}

func (l serverLog) line(event *zerolog.Event, format string, v []any) {
	event.Str("text", strings.TrimSpace(fmt.Sprintf(format, v...))).Msg("embedded NATS server")
}

// Noticef implements server.Logger, as do the methods below.
func (l serverLog) Noticef(string, ...any) {}

// Warnf logs at a lower level: a server warns of each of its usual steps.
func (l serverLog) Warnf(format string, v ...any) { l.line(l.log.Debug(), format, v) }

// Errorf logs an error that the server survives.
func (l serverLog) Errorf(format string, v ...any) { l.line(l.log.Warn(), format, v) }

// Fatalf logs an error that ends the server, and keeps it as the server's fault.
func (l serverLog) Fatalf(format string, v ...any) {
	text := "embedded NATS: " + strings.TrimSpace(fmt.Sprintf(format, v...))
	l.fault.Store(&text)
	l.line(l.log.Error(), format, v)
}

// Debugf logs nothing.
func (l serverLog) Debugf(string, ...any) {}

// Tracef logs nothing.
func (l serverLog) Tracef(string, ...any) {}
