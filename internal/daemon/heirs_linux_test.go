package daemon

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/record"
	"tidegate/internal/stray"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// TestJoinPorts gives a TCP port to a successor. A connection that came before the end of the predecessor is served.
// Sockets that are no port of joins stay with the others.
func TestJoinPorts(t *testing.T) {
	at, err := freeport.Find(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	c := &config.Config{Listeners: []config.Listener{{Name: "bedrock"}}}
	begin := func() (*joinServers, *relay.Settings) {
		s := newJoinServers(zerolog.Nop())
		s.bans = ratelimit.NewBans(ratelimit.Terms{})
		t.Cleanup(s.close)
		settings := &relay.Settings{Listeners: []relay.Listener{{
			Name: "bedrock", Addr: at, Route: &relay.Route{Upstream: new(relay.Upstream)},
			Protocols: []codec.Protocol{relay.NetherNet},
		}}}
		s.prepare(settings, c)
		return s, settings
	}
	old, settings := begin()
	old.follow(settings, []netip.AddrPort{at}, c)
	copies := old.copyPorts()
	if len(copies) != 1 {
		t.Fatalf("%d ports", len(copies))
	}
	other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	raw, err := other.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var kept int
	_ = raw.Control(func(fd uintptr) { kept, err = netio.Duplicate(int(fd)) })
	if err != nil {
		t.Fatal(err)
	}
	s, settings := begin()
	if rest := s.takePorts(append(copies, kept), settings); !slices.Equal(rest, []int{kept}) || len(s.ports) != 1 {
		t.Fatalf("%v are left of %v and %d", rest, copies, kept)
	}
	netio.CloseCopies([]int{kept})
	old.close()
	client, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal("between two processes, a client is refused: ", err)
	}
	defer client.Close()
	s.follow(settings, []netip.AddrPort{at}, c)
	if _, err := client.Write([]byte("GET /none HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(make([]byte, 100)); n == 0 {
		t.Error("the successor does not serve it: ", err)
	}
}

// TestGivenJoins takes joins of a predecessor and of other nodes. One whose server's certificate this process does not
// have is of no use.
func TestGivenJoins(t *testing.T) {
	s := newJoinServers(zerolog.Nop())
	server := netip.MustParseAddrPort("192.0.2.1:1")
	l := relay.Listener{
		Name: "bedrock", Addr: server, Route: &relay.Route{Upstream: new(relay.Upstream)},
		Protocols: []codec.Protocol{relay.NetherNet},
	}
	settings := &relay.Settings{Listeners: []relay.Listener{l}}
	s.prepare(settings, new(config.Config))
	table := settings.Listeners[0].Joins
	given := func(name, certificate string, listener uint64) []byte {
		return record.Append(nil, &givenJoin{Listener: listener, Ticket: joining.SavedTicket{
			Client: server.Addr(), Target: server, ServerUfrag: name, ServerPassword: "p", ClientUfrag: "c",
			Certificate: certificate,
		}})
	}
	id := stray.ListenerID("bedrock", 1)
	s.takeLate(given("late", "", id))
	s.lend(given("lent", "", id))
	s.lend(given("another certificate", "AA:BB", id))
	s.lend(given("another listener", "", id+1))
	s.lend([]byte("damaged"))
	s.takeLate(nil)
	counts := table.Counts()
	if u, _ := table.Sizes(); u != 2 || counts[joining.Answered] != 1 || counts[joining.Asked] != 1 {
		t.Errorf("%d joins, %v", u, counts)
	}
}
