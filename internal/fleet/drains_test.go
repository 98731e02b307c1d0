package fleet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidegate/internal/testkit/await"
)

// games are the game servers of a node in a test.
type games struct {
	mu   sync.Mutex
	all  map[gameServer]time.Time // drained
	tell func(string, netip.AddrPort, bool) bool

	servers   []ServerCount                     // of this node
	elsewhere map[string]map[netip.AddrPort]int // sessions of other nodes
}

func (g *games) SetFleetDrain(upstream string, addr netip.AddrPort, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[gameServer]time.Time)
	}
	if g.all[gameServer{upstream, addr}] = since; since.IsZero() {
		delete(g.all, gameServer{upstream, addr})
	}
}

func (g *games) OnDrain(tell func(string, netip.AddrPort, bool) bool) { g.tell = tell }

func (g *games) ServerCounts() []ServerCount {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.servers)
}

func (g *games) ProtocolCounts(context.Context) ([]ProtocolCount, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, s := range g.servers {
		n += s.Sessions
	}
	return []ProtocolCount{{"bedrock", n, 0}}, nil
}

func (g *games) SetFleetSessions(counts map[string]map[netip.AddrPort]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.elsewhere = counts
}

func (g *games) Drained() map[string][]netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string][]netip.AddrPort)
	for s := range g.all {
		all[s.upstream] = append(all[s.upstream], s.addr)
	}
	return all
}

// operator drains or undrains a server at a node.
func (g *games) operator(s gameServer, drain bool) { g.tell(s.upstream, s.addr, drain) }

// awaitDrains waits until exactly these servers are drained.
func (g *games) awaitDrains(t *testing.T, m *member, want ...gameServer) {
	t.Helper()
	await.Nil(t, func() error {
		g.mu.Lock()
		have := maps.Clone(g.all)
		g.mu.Unlock()
		for _, s := range want {
			if _, ok := have[s]; !ok {
				return fmt.Errorf("%s: %v not drained; %+v", m.Node, s, m.Status())
			}
		}
		if len(have) != len(want) {
			return fmt.Errorf("%s: drained are %v, want %v; %+v", m.Node, have, want, m.Status())
		}
		return nil
	})
}

// gameAt returns the n-th game server of the tests.
func gameAt(n int) gameServer { return gameServer{"arena", netip.AddrPortFrom(address(n), 19132)} }

// TestDrains drains at one node and undrains at another one. NATS goes away, and both nodes change their drains. When
// it is back, with its disk or with an empty one, both agree. A node that joins later has the drains too.
func TestDrains(t *testing.T) {
	for _, empty := range []bool{false, true} {
		port, folder := freePort(t), t.TempDir()
		s := natsServer(t, port, folder)
		url := []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}
		left, right := new(games), new(games)
		right.SetFleetDrain("arena", gameAt(9).addr, time.Now()) // as from a predecessor
		a := join(t, Options{Node: "a", Servers: url, Games: left})
		b := join(t, Options{Node: "b", Servers: url, Games: right})
		a.awaitCurrent(t)
		b.awaitCurrent(t)
		for i := range 3 {
			left.operator(gameAt(i), true)
		}
		for m, g := range map[*member]*games{a: left, b: right} {
			g.awaitDrains(t, m, gameAt(0), gameAt(1), gameAt(2), gameAt(9))
		}
		right.operator(gameAt(0), false)
		left.awaitDrains(t, a, gameAt(1), gameAt(2), gameAt(9))

		halt(s)
		await.Until(t, "away", func() bool { return !a.Status().Connected && !b.Status().Connected })
		left.operator(gameAt(1), false)
		right.operator(gameAt(5), true)
		left.operator(gameAt(6), true)
		right.operator(gameAt(6), true)
		right.operator(gameAt(6), false) // later than the drain of the other node
		if empty {
			folder = t.TempDir()
		}
		s = natsServer(t, port, folder)
		late := new(games)
		c := join(t, Options{Node: "c", Servers: url, Games: late})
		for m, g := range map[*member]*games{a: left, b: right, c: late} {
			g.awaitDrains(t, m, gameAt(2), gameAt(5), gameAt(9))
			await.Until(t, "sent", func() bool { return m.Status().Waiting == 0 })
		}
		if list := c.DrainedServers(); len(list) != 3 || list[0].Node != "a" || list[1].Node != "b" ||
			list[0].Upstream != "arena" || list[0].Addr != gameAt(2).addr || list[0].Since.IsZero() {
			t.Errorf("the list is %+v", list)
		}
		a.leave()
		b.leave()
		c.leave()
		halt(s)
	}
}

// TestHostileDrains writes records into the bucket that no node writes. They have no effect, and later ones arrive.
func TestHostileDrains(t *testing.T) {
	port := freePort(t)
	natsServer(t, port, t.TempDir())
	url, own := fmt.Sprintf("nats://127.0.0.1:%d", port), new(games)
	a := join(t, Options{Node: "a", Servers: []string{url}, Games: own})
	a.awaitCurrent(t)
	c, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	bucket, err := js.KeyValue(ctx, "tidegate_test_servers")
	if err != nil {
		t.Fatal(err)
	}
	other := gameAt(2).addr.String()
	for key, value := range map[string]string{
		"x": "{}", gameAt(1).key(): "\x00", "6172656e61/c6120003/70000": `{}`, "6172656e61/c6120003/": `{}`,
		gameAt(4).key(): `{"upstream":"arena","server":"` + other + `","drained":true,"changed":"2026-01-01T00:00:00Z"}`,
	} {
		if _, err := bucket.PutString(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bucket.Put(ctx, gameAt(3).key(), make([]byte, maxDrainRecord+1)); err == nil {
		t.Error("the bucket takes a record beyond the bound")
	}
	await.Until(t, "counted", func() bool { return a.Status().Invalid == 5 })
	own.awaitDrains(t, a)
	own.operator(gameAt(1), true) // where the bucket has a record that is not valid
	await.Nil(t, func() error {
		stored, err := bucket.Get(ctx, gameAt(1).key())
		if err == nil && !strings.Contains(string(stored.Value()), `"drained":true`) {
			err = fmt.Errorf("the bucket still has %q", stored.Value())
		}
		return err
	})
	if err := bucket.Delete(ctx, gameAt(1).key()); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func() error { // the node writes it again
		_, err := bucket.Get(ctx, gameAt(1).key())
		return err
	})
}

// TestDrainRecords reads back what a node writes, and refuses servers that cannot be shared.
func TestDrainRecords(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, server := range []string{"192.0.2.1:1", "[2001:db8::1]:65535"} {
		r := drainRecord{gameServer{"arena:tcp", netip.MustParseAddrPort(server)}, true, now.Add(time.Hour), "a"}
		value, err := r.format()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseDrain(r.key(), value, now)
		if r.changed = now; err != nil || *got != r { // a record from the future counts as made now
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
	}
	for _, s := range []gameServer{
		{"", gameAt(1).addr}, {strings.Repeat("x", maxUpstream+1), gameAt(1).addr}, {"a b", gameAt(1).addr},
		{"a", netip.AddrPort{}}, {"a", netip.MustParseAddrPort("[fe80::1%eth0]:1")},
		{"a", netip.MustParseAddrPort("1.2.3.4:0")},
	} {
		if s.valid() {
			t.Errorf("%+v can be shared", s)
		}
	}
}

// TestDrainLedgerIsBounded fills the ledger. Records that have ended make room.
func TestDrainLedgerIsBounded(t *testing.T) {
	defer func(n int) { maxDrains = n }(maxDrains)
	maxDrains = 4
	own := new(games)
	d := newDrains(identity{node: "a"}, 1, own)
	l, now := &d.ledger, time.Now()
	for i := range 8 {
		l.take(now, &drainRecord{gameAt(i), i > 0, now, "b"}, uint64(i+1))
	}
	if len(l.entries) != 4 || l.beyond != 4 || len(own.all) != 3 {
		t.Errorf("%d entries, %d beyond, drained are %v", len(l.entries), l.beyond, own.all)
	}
	if d.note(now, gameAt(9), true) {
		t.Error("a drain without room is shared")
	}
	if later := now.Add(removalMemory); !d.note(later, gameAt(9), true) || len(l.entries) != 4 {
		t.Errorf("an ended record leaves no room; %d entries", len(l.entries))
	}
}
