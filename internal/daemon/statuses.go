package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/pause"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// statuses asks the servers of NetherNet's listeners and upstreams for their state over HTTP. It shows them in RakNet's
// server lists while the servers do not answer RakNet themselves. With health = "http" it also is their health check.
type statuses struct {
	log    zerolog.Logger
	server *proxy.Server
	guid   uint64 // of the lists
	stop   func()
	all    sync.WaitGroup
}

const (
	statusTime  = 2 * time.Second // for an answer, if health checks have no time of their own
	statusBytes = 16 << 10
)

// follow asks for the listeners of these settings from now on.
func (s *statuses) follow(settings *relay.Settings, addrs []netip.AddrPort) {
	s.close()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	if s.guid == 0 {
		s.guid = rand.Uint64()
	}
	checked := make(map[string]bool)
	for i := range settings.Listeners {
		l := &settings.Listeners[i]
		u := l.Route.Upstream
		checks := u.Checks.By == relay.CheckHTTP && !checked[u.Name]
		speaks := u.Protocol == relay.NetherNet || isEdge(l) && l.Route.Mode == policy.ModeRelay
		if !checks && (!speaks || l.Pong == nil) || !speaks && !isEdge(l) {
			continue
		}
		checked[u.Name] = true
		one := &asker{
			statuses: s, listener: l, port: addrs[i].Port(), checks: checks, every: l.Route.Pings.Refresh, patience: statusTime,
			client: http.Client{
				Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			},
		}
		if checks {
			one.every, one.patience = u.Checks.Interval, u.Checks.Timeout
		}
		s.all.Go(func() { one.run(ctx) })
	}
}

// close ends all questions.
func (s *statuses) close() {
	if s.stop != nil {
		s.stop()
		s.all.Wait()
	}
}

// asker asks the servers of one listener.
type asker struct {
	*statuses
	listener *relay.Listener
	port     uint16
	checks   bool // the answers decide about the servers' health
	every    time.Duration
	patience time.Duration
	client   http.Client
}

func (a *asker) run(ctx context.Context) {
	defer a.client.CloseIdleConnections()
	for range pause.Every(ctx, a.every) {
		a.round(ctx)
	}
}

// round asks all servers at once, and shows the sum of their answers.
func (a *asker) round(ctx context.Context) {
	name := a.listener.Route.Upstream.Name
	servers := a.server.Servers(name)
	texts := make([][]byte, len(servers))
	var all sync.WaitGroup
	for i, at := range servers {
		all.Go(func() {
			begun := time.Now()
			status, err := a.ask(ctx, at)
			if err == nil && status != nil {
				texts[i] = status.AppendPong(nil, nethernet.Pong{GUID: a.guid, Port: a.port})
			}
			if a.checks && ctx.Err() == nil {
				a.note(at, time.Since(begun), err)
			}
		})
	}
	all.Wait()
	if ctx.Err() == nil && a.listener.Pong != nil {
		a.show(texts)
	}
}

// ask returns a server's state; nil: it has none to show. An error says why the server is not well.
func (a *asker) ask(ctx context.Context, at netip.AddrPort) (*nethernet.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/v1/join", nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.client.Do(question)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode/100 != 2 {
		return nil, fmt.Errorf("HTTP status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, statusBytes))
	if err != nil {
		return nil, err
	}
	status, err := nethernet.ParseStatus(text)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // older servers have no state, and are well
	}
	return &status, nil
}

// note tells the upstream how a check has ended.
func (a *asker) note(at netip.AddrPort, took time.Duration, err error) {
	name, why := a.listener.Route.Upstream.Name, causeOf(err)
	if !a.server.Checked(name, at, took, why) {
		return
	}
	line := a.log.Info()
	text := "server up"
	if why != "" {
		line, text = a.log.Warn().Str("reason", why), "server down"
	}
	line.Str("upstream", name).Stringer("server", at).Msg(text)
}

// causeOf returns an error of a request as a server's status has it.
func causeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return upstream.Refused
	case errors.Is(err, context.DeadlineExceeded):
		return "timed-out"
	}
	return err.Error()
}

// show puts the servers' texts together as the list of the listener.
func (a *asker) show(texts [][]byte) {
	var present [][]byte
	for _, text := range texts {
		if text != nil {
			present = append(present, text)
		}
	}
	for _, p := range a.listener.Protocols {
		protocol, ok := p.(codec.Pinger)
		if !ok || len(present) == 0 {
			continue
		}
		as := codec.Listing{Name: a.listener.Route.Pings.Name, Port: a.port}
		text := protocol.JoinPongs(nil, present, as)
		a.listener.Pong.SetElse(text, nethernet.AppendPongDatagram(nil, a.guid, text))
		return
	}
	a.listener.Pong.SetElse(nil, nil)
}
