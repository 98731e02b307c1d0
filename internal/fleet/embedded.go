package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"
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
	maxMemory = 64 << 20 // bytes of streams in memory
	maxStore  = 2 << 30  // bytes on disk
)

// routeUser is the name by which embedded servers know one another.
const routeUser = "tidegate"

// embedded is a NATS server in this process. Its methods do nothing if it is nil.
type embedded struct {
	*server.Server
	user, password string // of this process; others cannot know them
	listen         string // host:port for the other nodes; empty: none
	log            zerolog.Logger
	fault          *atomic.Pointer[string] // why it does not run; nil: it runs, or nothing is known
}

// newEmbedded makes a server that is not started. One that stands in for the node's own has no port that other nodes
// know, and no streams: it goes to them.
func newEmbedded(o *Options, standsIn bool) (*embedded, error) {
	e := o.Embedded
	s := &embedded{user: rand.Text(), password: rand.Text(), log: o.Log, fault: new(atomic.Pointer[string])}
	hash, err := bcrypt.GenerateFromPassword([]byte(s.password), bcrypt.MinCost)
	if err != nil {
		return nil, err
	}
	options := &server.Options{
		ServerName: o.Node, NoSigs: true, MaxPayload: 1 << 20,
		// Routes need a client port (server.StartRouting waits for it). Only this process has its password.
		Host: "127.0.0.1", Port: server.RANDOM_PORT, Username: s.user, Password: string(hash),
		JetStream: !standsIn, StoreDir: e.Store, JetStreamMaxMemory: maxMemory, JetStreamMaxStore: maxStore,
	}
	if standsIn {
		options.ServerName += "-" + rand.Text()
	}
	if len(e.Peers) > 1 {
		options.Cluster = server.ClusterOpts{
			Name: o.Name, Host: e.Host, Port: e.Port, Username: routeUser, Password: e.Secret,
			PoolSize: -1, PingInterval: patience, MaxPingsOut: 2, Advertise: e.advertise,
		}
		if standsIn {
			options.Cluster.Host, options.Cluster.Port, options.Cluster.NoAdvertise = "127.0.0.1", server.RANDOM_PORT, true
		} else {
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
	s.SetLoggerV2(newServerLog(o.Log, s.fault), false, false, false)
	return s, nil
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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		retry := time.NewTicker(retryEvery)
		defer retry.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-retry.C:
				if s.try() {
					return
				}
			}
		}
	}()
	return func() { <-ended }
}

// try starts the server if its port is free. A server that has no port has to be made anew, so this looks first.
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
		_ = l.Close()
	}
	s.fault.Store(nil)
	s.Start()
	return true
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

// stop ends the server, and waits until its files are written.
func (s *embedded) stop() {
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
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

func newServerLog(log zerolog.Logger, fault *atomic.Pointer[string]) serverLog {
	return serverLog{log.Sample(&zerolog.BurstSampler{Burst: serverLines, Period: linesPeriod}), fault}
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
