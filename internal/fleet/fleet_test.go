package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/ratelimit"
)

// member is a node in a test.
type member struct {
	*Fleet
	stop func()
	told <-chan struct{}
}

func join(t *testing.T, o Options) *member {
	t.Helper()
	o.Name, o.Log = "test", zerolog.Nop()
	o.Replicas = max(1, o.Replicas)
	if o.Bans == nil {
		o.Bans = ratelimit.NewBans(terms)
	}
	told := o.Bans.Subscribe()
	f, stop, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{f, stop, told}
	t.Cleanup(func() { m.stop() })
	return m
}

func (m *member) leave() {
	m.stop()
	m.stop = func() {}
}

func (m *member) awaitCurrent(t *testing.T) {
	t.Helper()
	await.Nil(t, func() error {
		if s := m.Status(); !s.Current {
			return fmt.Errorf("%s: %+v", m.Node, s)
		}
		return nil
	})
}

// awaitBan waits until an address is banned, or no longer banned.
func (m *member) awaitBan(t *testing.T, addr netip.Addr, banned bool) {
	t.Helper()
	await.News(t, fmt.Sprintf("at %s: ban of %s in force: %v", m.Node, addr, banned), m.told, func() bool {
		return (m.Bans.Find(time.Now(), addr) != nil) == banned
	})
}

func lasting(addr netip.Addr) ratelimit.Ban {
	now := time.Now().Truncate(time.Second).UTC()
	return ratelimit.Ban{
		Prefix: netip.PrefixFrom(addr, addr.BitLen()), Author: "ann", Reason: "test", Since: now, Until: now.Add(time.Hour),
	}
}

// address returns the n-th address of the tests.
func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)}) }

// freePort returns a loopback port that is free.
func freePort(t *testing.T) int {
	t.Helper()
	return int(freeport.Loopback(t).Port())
}

// cluster returns the options of nodes with embedded servers.
func cluster(t *testing.T, n int) []Options {
	t.Helper()
	ports, peers, all := make([]int, n), []string(nil), []Options(nil)
	for i := range ports {
		ports[i] = freePort(t)
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", ports[i]))
	}
	for i, port := range ports {
		all = append(all, Options{
			Node: fmt.Sprintf("node%d", i), Replicas: n,
			Embedded: &Embedded{
				Host: "127.0.0.1", Port: port, Peers: peers, Secret: "a secret of all nodes/@", Store: t.TempDir(),
			},
		})
	}
	return all
}

// TestEmbeddedCluster runs three nodes with embedded servers. A ban at one node holds at all. One node ends, and the
// other two go on. It comes back with changes of its own, and all nodes agree.
func TestEmbeddedCluster(t *testing.T) {
	options := cluster(t, 3)
	var nodes []*member
	for _, o := range options {
		nodes = append(nodes, join(t, o))
	}
	for _, n := range nodes {
		n.awaitCurrent(t)
	}
	const bans = 200
	var times []time.Duration
	for i := range bans {
		began := time.Now()
		nodes[i%3].Bans.Add(lasting(address(i)))
		for _, n := range nodes {
			n.awaitBan(t, address(i), true)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	t.Logf("time until a ban is in force at three nodes: median %v, p99 %v, longest %v",
		times[bans/2], times[bans*99/100], times[bans-1])

	nodes[2].leave()
	nodes[0].Bans.Remove(lasting(address(0)).Prefix)
	nodes[1].awaitBan(t, address(0), false)
	nodes[1].Bans.Add(lasting(address(300)))
	nodes[0].awaitBan(t, address(300), true)

	away := options[2]
	away.Bans = nodes[2].Bans // as from its file
	away.Bans.Add(lasting(address(301)))
	nodes[2] = join(t, away)
	for _, n := range nodes {
		n.awaitBan(t, address(0), false)
		n.awaitBan(t, address(300), true)
		n.awaitBan(t, address(301), true)
	}
}

// natsServer is a server of its own, which a test stops and starts again.
func natsServer(t *testing.T, port int, store string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: store, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { halt(s) })
	await.Until(t, "ready", func() bool { return s.ReadyForConnections(time.Second) })
	return s
}

func halt(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// TestNATSAway stops NATS. Both nodes keep their bans and change some. When NATS is back, with its disk or with an
// empty one, both have all changes.
func TestNATSAway(t *testing.T) {
	for _, empty := range []bool{false, true} {
		port, folder := freePort(t), t.TempDir()
		s := natsServer(t, port, folder)
		url := []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}
		a, b := join(t, Options{Node: "a", Servers: url}), join(t, Options{Node: "b", Servers: url})
		a.awaitCurrent(t)
		b.awaitCurrent(t)
		for i := range 3 {
			a.Bans.Add(lasting(address(i)))
			b.awaitBan(t, address(i), true)
		}
		halt(s)
		for _, n := range []*member{a, b} {
			await.Until(t, "away", func() bool { return !n.Status().Connected })
			if n.Bans.Find(time.Now(), address(0)) == nil {
				t.Errorf("%s forgets a ban while NATS is away", n.Node)
			}
		}
		a.Bans.Remove(lasting(address(0)).Prefix)
		b.Bans.Add(lasting(address(10)))
		for _, n := range []*member{a, b} {
			await.Until(t, "noticed", func() bool { return n.Status().Waiting == 1 })
		}
		if empty {
			folder = t.TempDir()
		}
		s = natsServer(t, port, folder)
		a.awaitBan(t, address(10), true)
		b.awaitBan(t, address(0), false)
		for _, n := range []*member{a, b} {
			n.awaitBan(t, address(1), true)
			n.awaitCurrent(t)
			await.Until(t, "sent", func() bool { return n.Status().Waiting == 0 })
		}
		a.leave()
		b.leave()
		halt(s)
	}
}

// TestHostileBucket writes records into the bucket that no node writes. They have no effect, and later ones arrive.
func TestHostileBucket(t *testing.T) {
	port := freePort(t)
	natsServer(t, port, t.TempDir())
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	a := join(t, Options{Node: "a", Servers: []string{url}})
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
	bucket, err := js.KeyValue(ctx, "tidegate_test_bans")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"x": "{}", "c0000200/24": "\x00", "a.b": `{"prefix":"192.0.2.0/24"}`, "c6120001/32": `{"prefix":"0.0.0.0/0"}`,
	} {
		if _, err := bucket.PutString(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bucket.Put(ctx, "c0000201/32", make([]byte, maxRecord+1)); err == nil {
		t.Error("the bucket takes a record beyond the bound")
	}
	await.Until(t, "counted", func() bool { return a.Status().Invalid == 4 })
	if all := a.Bans.All(); len(all) != 0 {
		t.Errorf("the node has %v", all)
	}
	a.Bans.Add(lasting(address(1))) // where the bucket has a record that is not valid
	await.Nil(t, func() error {
		stored, err := bucket.Get(ctx, keyOf(lasting(address(1)).Prefix))
		if err == nil && !strings.Contains(string(stored.Value()), "ann") {
			err = fmt.Errorf("the bucket still has %q", stored.Value())
		}
		return err
	})
	stream, err := js.Stream(ctx, "KV_tidegate_test_bans")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := stream.GetLastMsgForSubject(ctx, "$KV.tidegate_test_bans."+keyOf(lasting(address(1)).Prefix))
	if err != nil || stored.Header.Get(jetstream.MsgTTLHeader) == "" {
		t.Errorf("%v; the bucket does not end the ban by itself: %+v", err, stored)
	}
	if err := bucket.Delete(ctx, keyOf(lasting(address(1)).Prefix)); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func() error { // the node writes it again
		_, err := bucket.Get(ctx, keyOf(lasting(address(1)).Prefix))
		return err
	})
}

// TestStrangerAtTheCluster connects to the port of the embedded servers without their secret, and to the client port
// without a password.
func TestStrangerAtTheCluster(t *testing.T) {
	options := cluster(t, 2)
	stranger := options[1]
	liar := *stranger.Embedded
	liar.Secret = "another secret"
	stranger.Embedded = &liar
	a, b := join(t, options[0]), join(t, stranger)
	await.Until(t, "tried", func() bool { return a.Status().Error != "" && b.Status().Error != "" })
	if a.Status().Current || b.Status().Current {
		t.Error("a node without the secret joins the cluster")
	}
}

// TestTakenPort starts a node while another program has the port of its embedded server. The node says so, answers, and
// joins the others as soon as the port is free.
func TestTakenPort(t *testing.T) {
	options := cluster(t, 2)
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", options[0].Embedded.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	a, b := join(t, options[0]), join(t, options[1])
	await.Nil(t, func() error {
		if text := a.Status().Error; !strings.Contains(text, "fleet.listen") || !strings.Contains(text, "in use") {
			return fmt.Errorf("the state says %q", text)
		}
		return nil
	})
	a.Bans.Add(lasting(address(1)))
	if bans, err := a.BansInForce(); err != nil || len(bans) != 0 && bans[0].Node != a.Node {
		t.Errorf("%v, %v", bans, err)
	}
	_ = taken.Close()
	a.awaitCurrent(t)
	b.awaitCurrent(t)
	b.awaitBan(t, address(1), true)
}

// TestTakenPortUntilTheEnd ends a node that never gets its port, and one whose folder is a file.
func TestTakenPortUntilTheEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	options := cluster(t, 2)
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", options[0].Embedded.Port))
	if err != nil {
		t.Fatal(err)
	}
	options[1].Embedded.Store = os.Args[0] // not a folder
	a, b := join(t, options[0]), join(t, options[1])
	await.Until(t, "port missed", func() bool { return strings.Contains(a.Status().Error, "fleet.listen") })
	await.Nil(t, func() error {
		if text := b.Status().Error; !strings.Contains(text, "embedded NATS: ") {
			return errors.New(text)
		}
		return nil
	})
	t.Log(b.Status().Error)
	a.leave()
	b.leave()
	_ = taken.Close()
	await.Until(t, "ended without goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

// TestEndsCleanly leaves no goroutine behind.
func TestEndsCleanly(t *testing.T) {
	before := runtime.NumGoroutine()
	port := freePort(t)
	s := natsServer(t, port, t.TempDir())
	a := join(t, Options{Node: "a", Servers: []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}})
	a.awaitCurrent(t)
	a.leave()
	halt(s)
	await.Nil(t, func() error {
		if now := runtime.NumGoroutine(); now > before {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, %d before\n%s", now, before, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

// TestBadFiles refuses files that are no keys.
func TestBadFiles(t *testing.T) {
	for _, o := range []Options{
		{Credentials: "missing"}, {Embedded: &Embedded{Store: t.TempDir()}, Certificate: "missing", Key: "missing"},
	} {
		o.Node, o.Name, o.Bans = cmp.Or(o.Node, "a"), "test", ratelimit.NewBans(terms)
		if _, _, err := Start(o); err == nil {
			t.Errorf("%+v: want an error", o)
		}
	}
}
