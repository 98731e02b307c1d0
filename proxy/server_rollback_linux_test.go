package proxy_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/proxy"
)

// generation is a proxy and the signal of its end, for its successor.
type generation struct {
	*running
	gone chan struct{} // closed by the test when the process would have ended
}

// handOver starts a successor with some of the listeners.
func (g *generation) handOver(t *testing.T, loops int, settings *proxy.Settings) *generation {
	t.Helper()
	files, err := g.server.Files()
	if err != nil {
		t.Fatal(err)
	}
	server, err := proxy.Listen(settings, proxy.Options{
		Loops: loops, Log: zerolog.Nop(), Inherited: files, OthersGone: g.gone,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.server.HandOver(time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{settings: settings, server: server, stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- server.Run(ctx) }()
	t.Cleanup(func() { r.end(t) })
	return &generation{r, make(chan struct{})}
}

// TestListenersComeBackAfterHandOver removes a listener and restores it, with an upgrade before, between or after.
// Players of the first process stay. No step is refused, all players play on, and the address is free in the end.
func TestListenersComeBackAfterHandOver(t *testing.T) {
	for _, loops := range []int{1, 3} {
		for name, steps := range map[string][]string{
			"removed, upgraded, back":                    {"reload without", "upgrade without", "reload with"},
			"removed, upgraded with":                     {"reload without", "upgrade with"},
			"upgraded without, back":                     {"upgrade without", "reload with"},
			"upgraded, removed, back":                    {"upgrade with", "reload without", "reload with"},
			"upgraded twice, back":                       {"upgrade without", "upgrade without", "reload with"},
			"upgraded, removed, upgraded with":           {"upgrade with", "reload without", "upgrade with"},
			"upgraded without, upgraded with, and so on": {"upgrade without", "upgrade with", "reload without", "reload with"},
			"removed and back, upgraded, removed and back": {"reload without", "reload with", "upgrade with", "reload without",
				"reload with"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server, _ := gorkServer(t)
				spare := freePort(t)
				first := startWith(t, netio.Auto, loops, bedrock(), bedrock(), server, func(s *proxy.Settings) {
					s.Listeners[0].Addr = freePort(t)
					l := s.Listeners[0]
					l.Name, l.Addr = "second", spare
					s.Listeners = append(s.Listeners, l)
				})
				with, without := *first.settings, *first.settings
				without.Listeners = with.Listeners[:1]
				settings := map[string]*proxy.Settings{"with": &with, "without": &without}

				var players []*regular
				for range 4 {
					players = append(players, joinAt(t, 1, spare))
				}
				all := []*generation{{first, make(chan struct{})}}
				for _, step := range steps {
					now := all[len(all)-1]
					what, how, _ := strings.Cut(step, " ")
					if what == "upgrade" {
						all = append(all, now.handOver(t, loops, settings[how]))
					} else if err := now.server.Reload(settings[how]); err != nil {
						t.Fatalf("%s: %v", step, err)
					}
					if how == "with" {
						players = append(players, joinAt(t, 1, spare))
					}
					for _, p := range players {
						p.echoes()
					}
				}
				for _, p := range players {
					p.leave()
				}
				last := all[len(all)-1]
				if err := last.server.Reload(&without); err != nil {
					t.Fatal(err)
				}
				for _, g := range all[:len(all)-1] {
					g.end(t)
					close(g.gone)
				}
				await.Nil(t, func() error {
					again, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(spare))
					if err == nil {
						err = again.Close()
					}
					return err
				})
			})
		}
	}
}
