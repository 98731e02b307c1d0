package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/enet"
	"tidegate/codec/riptide"
	"tidegate/codec/rudp"
	"tidegate/internal/testkit/await"
)

// severalGames are pairs of games of one protocol that differ in an option, with one message of their own each. The
// first of a pair has tables of its own, the second has the process's values.
var severalGames = []struct {
	name, table string
	protocol    codec.Protocol
	message     codec.Message
	wantChannel uint8
}{
	{"rudp", "app_id = 7", rudp.New(rudp.Options{AppID: 7, Rate: 30}),
		codec.Message{Mode: codec.Unreliable, Payload: []byte("kart")}, 0},
	{"rudp", "", rudp.New(rudp.Options{AppID: 9, Rate: 30}),
		codec.Message{Mode: codec.Unreliable, Payload: []byte("duel")}, 0},
	{"enet", "channels = 2", enet.New(enet.Options{}),
		codec.Message{Mode: codec.ReliableOrdered, Payload: []byte("kart"), Channel: 5}, 0},
	{"enet", "", enet.New(enet.Options{}),
		codec.Message{Mode: codec.ReliableOrdered, Payload: []byte("duel"), Channel: 5}, 5},
	{"riptide-2.2", "max_payload = 3000",
		riptide.New(riptide.Options{MaxPayload: 3000, IgnoreQuality: true}),
		codec.Message{Mode: codec.Reliable, HasID: true, ID: 3, Payload: bytes.Repeat([]byte("k"), 2900)}, 0},
	{"riptide-2.2", "", riptide.New(riptide.Options{IgnoreQuality: true}),
		codec.Message{Mode: codec.Reliable, HasID: true, ID: 3, Payload: []byte("duel")}, 0},
}

// severalPlayer is the player of one of severalGames. It says its message again and again.
type severalPlayer struct {
	mu       sync.Mutex
	up, over bool
	last     codec.Message
	echoes   int
}

func (p *severalPlayer) event(c *endpoint.Conn[*severalPlayer], e *codec.Event) {
	if p == nil { // a server's
		if e.Kind == codec.Received {
			_ = c.Send(time.Now(), e.Message)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case codec.Connected:
		p.up = true
	case codec.Disconnected:
		p.over = true
	case codec.Received:
		p.last, p.echoes = e.Message, p.echoes+1
		p.last.Payload = bytes.Clone(e.Payload)
	}
}

// severalConfiguration has a listener, a route and an upstream for each of severalGames. Sessions live through a busy
// machine.
func severalConfiguration(ports []netip.AddrPort) string {
	text := "[riptide]\nquality_disconnect = false\n[rudp]\napp_id = 9\nrate = 30\n"
	for i, g := range severalGames {
		table, _, _ := strings.Cut(g.name, "-")
		own := func(of string) string {
			if g.table == "" {
				return ""
			}
			return fmt.Sprintf("[%s.%s]\n%s\n", of, table, g.table)
		}
		text += fmt.Sprintf("[[listener]]\nname = \"g%[1]d\"\naddress = %[2]q\nprotocols = [%[3]q]\n"+
			"route = \"g%[1]d\"\n%[5]s[[route]]\n"+
			"name = \"g%[1]d\"\nupstream = \"g%[1]d\"\n[[upstream]]\nname = \"g%[1]d\"\nprotocol = %[3]q\n"+
			"servers = [%[4]q]\n%[6]s", i, ports[2*i+1], g.name, ports[2*i], own("listener"), own("upstream"))
	}
	return text
}

// TestSeveralGamesInOneProcess plays games of one protocol with other options side by side, before and after an
// upgrade.
func TestSeveralGamesInOneProcess(t *testing.T) {
	games, err := endpoint.New(endpoint.Options[*severalPlayer]{
		Event: func(c *endpoint.Conn[*severalPlayer], e *codec.Event) { c.Value.event(c, e) },
	})
	must(t, err)
	ports := ownPorts(2 * len(severalGames))
	for i, g := range severalGames {
		_, err := games.Listen(g.protocol, ports[2*i], endpoint.SocketOptions{})
		must(t, err)
	}
	p := startProcess(t, severalConfiguration(ports))
	var players []*severalPlayer
	var conns []*endpoint.Conn[*severalPlayer]
	for i, g := range severalGames {
		c, err := games.Dial(g.protocol, ports[2*i+1], codec.Hello{Identity: uint64(i+1) | 1<<63}, endpoint.SocketOptions{})
		must(t, err)
		c.Value = new(severalPlayer)
		players, conns = append(players, c.Value), append(conns, c)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			for i, c := range conns {
				if c.Value.up && !c.Value.over {
					_ = c.Send(games.Now(), severalGames[i].message)
					games.Touch(c)
				}
			}
			err = games.Turn(time.Now().Add(10 * time.Millisecond))
		}
		ended <- errors.Join(err, games.Close())
	}()
	for _, when := range []string{"before the upgrade", "after the upgrade"} {
		for i, player := range players {
			g, first := &severalGames[i], -1
			await.Nil(t, func() error {
				player.mu.Lock()
				defer player.mu.Unlock()
				if first < 0 {
					first = player.echoes
				}
				if got := player.last; player.over || player.echoes < first+3 ||
					!bytes.Contains(got.Payload, g.message.Payload) || got.Channel != g.wantChannel {
					return fmt.Errorf("%s: %s %q: over %v, %d echoes after %d, the last of %d bytes on channel %d", when, g.name,
						g.table, player.over, player.echoes, first, len(got.Payload), got.Channel)
				}
				return nil
			})
		}
		if when == "before the upgrade" {
			p.upgraded(t, p.cmd.Process.Pid)
		}
	}
	stop()
	must(t, <-ended)
}
