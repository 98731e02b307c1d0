package proxy_test

import (
	"net"
	"strings"
	"testing"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy/relay"
)

// TestListenersComeBackAfterHandOver removes a listener and restores it, with an upgrade before, between or after.
// Players of the first process play on. No step is refused, all players play on, and the address is free in the end.
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
				spare := freeport.Loopback(t)
				first := startWith(t, netio.Auto, loops, bedrock(), bedrock(), server, func(s *relay.Settings) {
					s.Listeners[0].Addr = freeport.Loopback(t)
					l := s.Listeners[0]
					l.Name, l.Addr = "second", spare
					s.Listeners = append(s.Listeners, l)
				})
				with, without := *first.settings, *first.settings
				without.Listeners = with.Listeners[:1]
				settings := map[string]*relay.Settings{"with": &with, "without": &without}

				var players []*regular
				for range 4 {
					players = append(players, joinAt(t, 1, spare))
				}
				now := first
				for _, step := range steps {
					what, how, _ := strings.Cut(step, " ")
					if what == "upgrade" { // with the listener that still has players, as the daemon does
						now = succeed(t, now, &with, loops)
					}
					if err := now.server.Reload(settings[how]); err != nil {
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
				if err := now.server.Reload(&without); err != nil {
					t.Fatal(err)
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
