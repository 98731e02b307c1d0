package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tidegate/internal/testkit/await"
)

// set changes the sessions of a node's servers.
func (g *games) set(sessions ...int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.servers = nil
	for i, n := range sessions {
		g.servers = append(g.servers, ServerCount{"arena", gameAt(i).addr, n, "up"})
	}
}

// awaitElsewhere waits until other nodes have these sessions.
func (g *games) awaitElsewhere(t *testing.T, m *member, sessions ...int) {
	t.Helper()
	await.Nil(t, func() error {
		g.mu.Lock()
		have := g.elsewhere["arena"] // never changed
		g.mu.Unlock()                // before Status: the Fleet asks for servers while it has a lock of its own
		for i, want := range sessions {
			if n := have[gameAt(i).addr]; n != want {
				return fmt.Errorf("%s: %d sessions elsewhere at server %d, want %d; %+v", m.Node, n, i, want, m.Status())
			}
		}
		return nil
	})
}

// TestCounts runs three nodes with embedded servers. Each knows the sum of the others. A node ends, and its sessions
// are forgotten. It comes back, and hears of the others at once.
func TestCounts(t *testing.T) {
	options, own, nodes := cluster(t, 3), make([]*games, 3), make([]*member, 3)
	for i := range options {
		own[i] = new(games)
		options[i].Games = own[i]
		nodes[i] = join(t, options[i])
	}
	own[0].set(1, 10)
	own[1].set(2, 20, 200)
	own[2].set(4)
	own[0].awaitElsewhere(t, nodes[0], 6, 20, 200)
	own[1].awaitElsewhere(t, nodes[1], 5, 10, 0)
	own[2].awaitElsewhere(t, nodes[2], 3, 30, 200)
	own[1].set(2, 25)
	own[0].awaitElsewhere(t, nodes[0], 6, 25, 0)
	own[2].awaitElsewhere(t, nodes[2], 3, 35, 0)
	if s := nodes[0].Status(); s.Nodes != 2 || s.Reports.Sent == 0 || s.Reports.Lag <= 0 || s.Messages.In == 0 {
		t.Errorf("the state is %+v", s)
	}
	await.Nil(t, func() error {
		all := nodes[0].Nodes()
		if len(all) != 3 || all[0].Name != "node0" || all[1].Servers[1].Sessions != 25 || len(all[2].Protocols) != 1 ||
			all[2].Protocols[0].Established != 4 {
			return fmt.Errorf("the nodes are %+v", all)
		}
		return nil
	})

	nodes[1].leave()
	own[0].awaitElsewhere(t, nodes[0], 4, 0)
	own[2].awaitElsewhere(t, nodes[2], 1, 10)
	back := options[1]
	back.Games = new(games)
	own[1] = back.Games.(*games)
	nodes[1] = join(t, back)
	own[1].awaitElsewhere(t, nodes[1], 5, 10)
}

// TestPaceFollowsNodes asserts that more nodes report less often, and at which of their ticks.
func TestPaceFollowsNodes(t *testing.T) {
	for nodes, want := range map[int]int{1: 1, 12: 1, 20: 2, 30: 2, 50: 4, 100: 8, 256: 8} {
		ticks := 1
		for early(time.Duration(ticks)*reportEvery, reportEvery, nodes) {
			ticks++
		}
		if ticks != want {
			t.Errorf("%d nodes report at each %d. tick, want %d", nodes, ticks, want)
		}
	}
}

// TestHostileCounts sends reports that no node sends. They have no effect, and later ones arrive.
func TestHostileCounts(t *testing.T) {
	port, own := freePort(t), new(games)
	natsServer(t, port, t.TempDir())
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	a := join(t, Options{Node: "a", Servers: []string{url}, Games: own, ReportEvery: 50 * time.Millisecond})
	a.awaitCurrent(t)
	c, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	value := func(r *report) []byte {
		b, err := r.format()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := value(reportOf("x", 2, 7))
	bad := 0
	for node, raw := range map[string][]byte{
		"b": []byte("{"), "c": make([]byte, maxReport+1), strings.Repeat("n", maxNode+1): good,
	} {
		if err := c.Publish("tidegate.test.counts."+node, raw); err != nil {
			t.Fatal(err)
		}
		bad++
	}
	await.Until(t, "counted", func() bool { return a.Status().Reports.Invalid == uint64(bad) })
	await.Nil(t, func() error { // this node's own name; its next report may replace one that is not read yet
		if a.Status().Reports.Invalid > uint64(bad) {
			return nil
		}
		return cmp.Or(c.Publish("tidegate.test.counts.a", good), errors.New("not counted"))
	})
	if n := a.Status().Nodes; n != 0 || own.elsewhere != nil {
		t.Errorf("%d nodes, %v", n, own.elsewhere)
	}
	for _, r := range []*report{reportOf("x", 2, 7), reportOf("x", 1, 9)} { // the second one is late
		if err := c.Publish("tidegate.test.counts.b", value(r)); err != nil {
			t.Fatal(err)
		}
		own.awaitElsewhere(t, a, 7)
	}
	many := newCounts(a.identity(), 0, a.Games) // more nodes than there is room for, before one of them is read
	for i := range maxNodes + 11 {
		many.hear(fmt.Sprint("n", i), good)
	}
	for range 3 {
		many.hear("n0", good)
	}
	if many.status.NoRoom != 10 || many.size != (maxNodes+1)*len(good) {
		t.Errorf("%d reports without room, %d bytes are kept", many.status.NoRoom, many.size)
	}
	if many.read(); many.status.NoRoom != 11 || len(many.account.nodes) != maxNodes || many.size != 0 {
		t.Errorf("%d reports without room, %d nodes", many.status.NoRoom, len(many.account.nodes))
	}
}

// TestChangeAndRepeatAreOneReport: counts of a node of a hundred change all the time. It reports each 2 s, though its
// ticks come a little early, so that a repeat is due just behind one of them.
func TestChangeAndRepeatAreOneReport(t *testing.T) {
	own := new(games)
	c := newCounts(identity{node: "a"}, 0, own)
	for i := range 99 {
		c.account.nodes[fmt.Sprint("node", i)] = &heard{report: new(report), at: time.Now().Add(time.Hour)}
	}
	started, reports := time.Now(), 0
	for tick := range 160 { // 40 s
		now := started.Add(time.Duration(tick) * (reportEvery - 10*time.Microsecond))
		own.set(tick)
		b, err := c.tell(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		if b != nil {
			c.last.Sent = now
			reports++
		}
	}
	if reports != 20 {
		t.Errorf("%d reports, want 20", reports)
	}
}
