package cli

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/enet"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/internal/testkit/netlab"
)

// interruptedRows are the sessions of TestMissingRoute: each has a listener and a server of its own.
var interruptedRows = []struct {
	name, mode string
	protocol   codec.Protocol
}{
	{"raknet", "terminate", raknet.New(raknet.Options{})},
	{"riptide-2.2", "terminate", riptide.New(riptide.Options{})},
	{"enet", "terminate", enet.New(enet.Options{})},
	{"any", "relay", riptide.New(riptide.Options{})},
}

// missable is the number of more than 40 players that may give up to join on a busy machine. Without the remedy that
// this test is for, nearly all do.
const missable = 12

// interrupted is one player of TestMissingRoute.
type interrupted struct {
	up, over bool
	echoes   int
}

// TestMissingRoute takes the route to the servers away for 150 ms, and their addresses. No session may end. Then
// players join during a second without a route. All of them must get in.
func TestMissingRoute(t *testing.T) {
	players, host, servers := netlab.New(t, "players"), netlab.New(t, "host"), netlab.New(t, "servers")
	netlab.Cable(players, "eth0", host, "eth0")
	netlab.Cable(servers, "eth0", host, "eth1")
	players.Address("eth0", "203.0.113.7/24")
	host.Address("eth0", "203.0.113.1/24")
	host.Address("eth1", "10.1.0.1/24")
	servers.Address("eth0", "10.1.0.2/24")
	servers.Address("lo", "10.9.0.2/32")
	servers.Route("203.0.113.0/24", "10.1.0.1")
	host.Route("10.9.0.2/32", "10.1.0.2")

	game, err := endpoint.New(endpoint.Options[*interrupted]{Event: echoing})
	if err != nil {
		t.Fatal(err)
	}
	defer game.Close()
	text := "[bans]\nfile = \"\"\n"
	for i, row := range interruptedRows {
		port := 7000 + i
		servers.Do(func() {
			_, err = game.Listen(row.protocol, netip.MustParseAddrPort(fmt.Sprint("10.9.0.2:", port)), endpoint.SocketOptions{})
		})
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("[[listener]]\nname = \"l%[1]d\"\naddress = \"203.0.113.1:%[1]d\"\nprotocols = [%[2]q]\n"+
			"route = \"r%[1]d\"\n[[route]]\nname = \"r%[1]d\"\nupstream = \"u%[1]d\"\nmode = %[3]q\n"+
			"[[upstream]]\nname = \"u%[1]d\"\nprotocol = %[2]q\nservers = [\"10.9.0.2:%[1]d\"]\n", port, row.name, row.mode)
	}
	host.Do(func() { startProcess(t, text) })

	var all []*endpoint.Conn[*interrupted]
	join := func(i int) {
		var c *endpoint.Conn[*interrupted]
		players.Do(func() {
			c, err = game.Dial(interruptedRows[i].protocol, netip.MustParseAddrPort(fmt.Sprint("203.0.113.1:", 7000+i)),
				codec.Hello{Identity: uint64(len(all)+1) | 1<<63}, endpoint.SocketOptions{})
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Value = new(interrupted)
		all = append(all, c)
	}
	// play sends a message of each player every 10 ms for a while, or until all are done.
	play := func(d time.Duration, done func(*interrupted) bool) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			waiting := false
			for _, c := range all {
				if c.Value.up && !c.Value.over {
					_ = c.Send(game.Now(), codec.Message{Payload: []byte{0x86, 1}, Mode: codec.Unreliable, ID: 7,
						HasID: isRiptide(c)})
					game.Touch(c)
				}
				waiting = waiting || done == nil || !done(c.Value)
			}
			if !waiting {
				return
			}
			if err := game.Turn(time.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustPlay := func(what string) {
		t.Helper()
		for _, c := range all {
			c.Value.echoes = 0
		}
		play(20*time.Second, func(p *interrupted) bool { return p.over || p.echoes > 20 })
		out := 0
		for i, c := range all {
			if c.Value.over || c.Value.echoes <= 20 {
				// The loop drops openings while it is late, on a machine with a load of 30.
				if out++; out <= missable && !c.Value.up {
					t.Logf("player %d did not get in", i)
					continue
				}
				t.Errorf("%s: player %d of %s: connected %v, over %v, %d echoes", what, i,
					interruptedRows[i%len(interruptedRows)].name, c.Value.up, c.Value.over, c.Value.echoes)
			}
		}
	}
	for i := range interruptedRows {
		join(i)
	}
	mustPlay("before")
	host.Unroute("10.9.0.2/32")
	play(150*time.Millisecond, nil)
	host.Route("10.9.0.2/32", "10.1.0.2")
	mustPlay("after the route was away")
	servers.Unaddress("lo", "10.9.0.2/32")
	play(150*time.Millisecond, nil)
	servers.Address("lo", "10.9.0.2/32")
	mustPlay("after the address was away")
	host.Unroute("10.9.0.2/32")
	unrouted := time.Now()
	for range 10 {
		for i := range interruptedRows {
			join(i)
		}
		if play(100*time.Millisecond, nil); time.Since(unrouted) > 2*time.Second {
			break // a busy machine: Riptide's client gives up after 5 s, as it does without a proxy
		}
	}
	host.Route("10.9.0.2/32", "10.1.0.2")
	mustPlay("after joins without a route")
}

func isRiptide(c *endpoint.Conn[*interrupted]) bool {
	port := c.Peer().Port()
	return port == 7001 || port == 7003
}

// echoing returns messages to clients, and counts those of servers.
func echoing(c *endpoint.Conn[*interrupted], e *codec.Event) {
	switch p := c.Value; {
	case p == nil && e.Kind == codec.Received:
		_ = c.Send(time.Now(), e.Message)
	case p == nil:
	case e.Kind == codec.Connected:
		p.up = true
	case e.Kind == codec.Received:
		p.echoes++
	case e.Kind == codec.Disconnected:
		p.over = true
	}
}
