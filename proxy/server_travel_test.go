package proxy_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/udppath"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// TestTravelBetweenServers moves players from one Server to another and back while they talk. Each message arrives
// once, and the game server sees no change.
func TestTravelBetweenServers(t *testing.T) {
	t.Parallel() // the only parallel test with go-raknet's dialer: two at once race for a map of that library
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			game, left := gorkServer(t)
			both := []*running{
				start(t, b.backend, b.loops, bedrock(), bedrock(), game), start(t, b.backend, b.loops, bedrock(), bedrock(), game),
			}
			stop := make(chan struct{})
			var talking sync.WaitGroup
			var paths []*udppath.Path
			for range 4 {
				path := udppath.New(t, both[0].addr)
				conn, err := gork.DialTimeout(path.Addr().String(), patience)
				if err != nil {
					t.Fatal(err)
				}
				paths = append(paths, path)
				talking.Go(func() {
					if err := talkWith(conn, stop, func(time.Duration) {}); err != nil {
						t.Error(err)
					}
					_ = conn.Close()
				})
			}
			for n := range 6 {
				travel(t, both[n%2].server, both[1-n%2], paths)
			}
			if n := len(left); n != 0 {
				t.Errorf("%d players have left the game server", n)
			}
			close(stop)
			talking.Wait()
		})
	}
}

// travel moves all sessions of a Server to another one, with the paths of the players.
func travel(t *testing.T, from *proxy.Server, to *running, paths []*udppath.Path) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for moved := 0; moved < len(paths); {
		all, err := from.List(ctx, &relay.ListSessions{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			shown := &relay.RecordSession{ID: one.ID}
			if err := from.Ask(ctx, shown); err != nil || shown.State["client"] != one.Client.String() {
				t.Errorf("the state of %v is %v, %v", one.ID, shown.State, err)
			}
			out := &relay.TakeOutSession{ID: one.ID}
			err := from.Ask(ctx, out)
			if errors.Is(err, relay.ErrNotMovable) {
				continue // it has just joined: again
			}
			if err == nil {
				err = to.server.Ask(ctx, &relay.PutInSession{Record: out.Record})
			}
			if err != nil {
				t.Fatal(err)
			}
			moved++
		}
	}
	for _, p := range paths {
		p.Switch(to.addr)
	}
}

// TestTakenOutAndBack gives a session back to the Server that it has left.
func TestTakenOutAndBack(t *testing.T) {
	game, _ := gorkServer(t)
	now := start(t, netio.Auto, 1, bedrock(), bedrock(), game)
	conn, err := gork.DialTimeout(now.addr.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	done, end := make(chan struct{}), make(chan error, 1)
	go func() { end <- talkWith(conn, done, func(time.Duration) {}) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 3 {
		for back := false; !back; {
			all, err := now.server.List(ctx, &relay.ListSessions{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 {
				continue // it waits for its client
			}
			out := &relay.TakeOutSession{ID: all[0].ID}
			err = now.server.Ask(ctx, out)
			if errors.Is(err, relay.ErrNotMovable) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := now.server.Ask(ctx, &relay.TakeOutSession{ID: all[0].ID}); !errors.Is(err, relay.ErrNoSession) {
				t.Errorf("taken out twice: %v", err)
			}
			if err := now.server.Ask(ctx, &relay.PutInSession{Record: out.Record}); err != nil {
				t.Fatal(err)
			}
			back = true
		}
	}
	close(done)
	if err := <-end; err != nil {
		t.Error(err)
	}
}
