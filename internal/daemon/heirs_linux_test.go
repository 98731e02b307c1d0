package daemon

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
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
		s := newJoinServers(zerolog.Nop(), false)
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
	log := make(lines, 100)
	s := newJoinServers(zerolog.New(log), false)
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
	s.lend(given("another certificate", "AA:CC", id))
	if len(log) != 1 {
		t.Errorf("%d lines about another certificate", len(log))
	}
	s.lend(given("another listener", "", id+1))
	s.lend([]byte("damaged"))
	s.takeLate(given("another certificate", "AA:BB", id))
	s.takeLate(given("late", "", id)) // a second one of that name
	s.takeLate(given("another listener", "", id+1))
	s.takeLate(nil)
	if len(log) != 4 { // of one network two, and one of none
		t.Errorf("%d lines about joins that failed", len(log)-1)
	}
	want := joining.Counts{joining.Asked: 3, joining.Answered: 3, joining.Failed: 2, joining.Foreign: 2}
	if u, _ := table.Sizes(); u != 2 || table.Counts() != want {
		t.Errorf("%d joins, %v", u, table.Counts())
	}
}

// TestOwnCertificates gives each listener the certificate of its own identity_key. Another process of other listeners,
// or of another order, can go on with its joins.
func TestOwnCertificates(t *testing.T) {
	c := new(config.Config)
	for _, name := range []string{"one", "two"} {
		file := filepath.Join(t.TempDir(), name+".pem")
		writeKey(t, file)
		c.Listeners = append(c.Listeners, config.Listener{Name: name, IdentityKey: file})
	}
	begin := func(names ...string) (*joinServers, *relay.Settings) {
		s, settings := newJoinServers(zerolog.Nop(), false), new(relay.Settings)
		for _, name := range names {
			settings.Listeners = append(settings.Listeners, relay.Listener{
				Name: name, Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(len(settings.Listeners)+1)),
				Route:     &relay.Route{Mode: policy.ModeTerminate, Upstream: new(relay.Upstream)},
				Protocols: []codec.Protocol{relay.NetherNet},
			})
		}
		s.prepare(settings, c)
		return s, settings
	}
	first, settings := begin("one", "two")
	digests := make(map[string]bool)
	for i := range settings.Listeners {
		own, err := first.own(new(joinServer), &settings.Listeners[i], c)
		if err != nil {
			t.Fatal(err)
		}
		digest := own.Fingerprint.Digest
		digests[digest] = true
		for _, names := range [][]string{{"two", "one"}, {settings.Listeners[i].Name}} {
			if other, _ := begin(names...); !other.host.Has(digest) {
				t.Errorf("a process of %v is not the server of %s", names, settings.Listeners[i].Name)
			}
		}
	}
	if len(digests) != 2 {
		t.Errorf("%d certificates of two keys", len(digests))
	}
}

// TestHoldAfterReloads gives a successor the joins of all listeners, each once, with the names in force: of one that a
// reload has renamed, and of one that a reload has removed. A reload that has failed changes nothing.
func TestHoldAfterReloads(t *testing.T) {
	s, at := newJoinServers(zerolog.Nop(), false), netip.MustParseAddrPort("192.0.2.1:1")
	gone := netip.MustParseAddrPort("192.0.2.1:2")
	listener := func(name string, at netip.AddrPort) relay.Listener {
		return relay.Listener{
			Name: name, Addr: at, Route: &relay.Route{Upstream: new(relay.Upstream)},
			Protocols: []codec.Protocol{relay.NetherNet},
		}
	}
	s.bans = ratelimit.NewBans(ratelimit.Terms{})
	t.Cleanup(s.close)
	reload := func(fails bool, listeners ...relay.Listener) {
		settings := &relay.Settings{Listeners: listeners}
		s.prepare(settings, new(config.Config))
		if fails {
			return
		}
		// Any TCP port will do.
		s.follow(settings, make([]netip.AddrPort, len(listeners)), new(config.Config))
	}
	reload(false, listener("one", at), listener("gone", gone))
	now := time.Now()
	old, err := s.tables[gone].Ask(now, "1", "", at.Addr(), at) // it waits for its server's answer
	if err != nil {
		t.Fatal(err)
	}
	reload(false, listener("renamed", at))
	reload(true, listener("failed", at))
	ticket, err := s.tables[at].Ask(now, "2", "", at.Addr(), at)
	if err != nil {
		t.Fatal(err)
	}
	release := s.hold()
	got := make(map[uint64]string)
	release(func(join []byte) error {
		var v givenJoin
		if err := record.Read(join, &v); err != nil {
			return err
		}
		got[v.Listener] = v.Ticket.ID
		return nil
	})
	for _, one := range []*joining.Ticket{old, ticket} {
		one.ServerUfrag, one.ServerPassword, one.ClientUfrag, one.Target = one.Route+"s", "p", "c", at
	}
	if err := errors.Join(s.tables[gone].Answer(now, old), s.tables[at].Answer(now, ticket)); err != nil {
		t.Fatal(err)
	}
	want := map[uint64]string{stray.ListenerID("gone", 2): "1", stray.ListenerID("renamed", 1): "2"}
	if !maps.Equal(got, want) {
		t.Errorf("the successor has %v, want %v", got, want)
	}
}

// TestBusyPort serves joins once another process leaves the port, however late. The log says that it waits.
func TestBusyPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		log := make(lines, 100)
		s, one := newJoinServers(zerolog.New(log), false), &joinServer{files: joinFiles{name: "bedrock"}}
		at, came := busy.Addr().(*net.TCPAddr).AddrPort(), make(chan *net.TCPListener, 2)
		go func() { came <- s.await(t.Context(), one, at) }()
		time.Sleep(portTime + 2*portPeriod)
		synctest.Wait()
		if len(log) != 2 {
			t.Errorf("%d lines", len(log))
		}
		_ = busy.Close()
		port := <-came
		if port == nil || one.raw != port || len(log) != 3 {
			t.Errorf("%v, %d lines", port, len(log))
		}
		defer port.Close()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { came <- s.await(ctx, one, at) }()
		cancel()
		if <-came != nil {
			t.Error("a listener that is gone has a port")
		}
	})
}
