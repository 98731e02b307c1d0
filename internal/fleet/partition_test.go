package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tidegate/internal/testkit/await"
)

// gate is a TCP path from one node to another one, which a test can cut.
type gate struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	fault fault
	ends  map[net.Conn]struct{}
	moved *sync.Cond // the fault has changed
}

// fault is what happens to a gate's connections.
type fault int

const (
	none    fault = iota
	closed        // they end, and new ones too
	stalled       // no byte goes through, and no connection ends
)

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, to: to, ends: make(map[net.Conn]struct{})}
	g.moved = sync.NewCond(&g.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { g.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.set(closed)
		all.Wait()
	})
	return g
}

// set changes the fault.
func (g *gate) set(f fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = f
	g.moved.Broadcast()
	if f == closed {
		for c := range g.ends {
			_ = c.Close()
		}
	}
}

// carry joins a connection to the other node.
func (g *gate) carry(c net.Conn) {
	defer func() { _ = c.Close() }()
	far, err := net.Dial("tcp", g.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	g.mu.Lock()
	if g.fault == closed {
		g.mu.Unlock()
		return
	}
	g.ends[c], g.ends[far] = struct{}{}, struct{}{}
	g.mu.Unlock()
	var both sync.WaitGroup
	copyTo := func(to, from net.Conn) {
		_, _ = io.Copy(throttled{to, g}, from)
		_, _ = to.Close(), from.Close()
	}
	both.Go(func() { copyTo(far, c) })
	both.Go(func() { copyTo(c, far) })
	both.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.ends, c)
	delete(g.ends, far)
}

// throttled writes while its gate is not stalled.
type throttled struct {
	net.Conn
	gate *gate
}

func (w throttled) Write(b []byte) (int, error) {
	w.gate.mu.Lock()
	for w.gate.fault == stalled {
		w.gate.moved.Wait()
	}
	w.gate.mu.Unlock()
	return w.Conn.Write(b)
}

// gatedCluster returns the options of nodes whose embedded servers reach one another by gates, and the gates by the
// nodes at their ends.
func gatedCluster(t *testing.T, n int) (all []Options, gates map[[2]int]*gate) {
	t.Helper()
	all, gates = cluster(t, n), make(map[[2]int]*gate)
	for i := range all {
		all[i].Games = new(games)
		all[i].Embedded.advertise = fmt.Sprintf("127.0.0.1:%d", freePort(t))
		peers := append([]string(nil), all[i].Embedded.Peers...)
		for j := range peers {
			if j != i {
				g := newGate(t, all[i].Embedded.Peers[j])
				gates[[2]int{i, j}], peers[j] = g, g.listener.Addr().String()
			}
		}
		all[i].Embedded.Peers = peers
	}
	return all, gates
}

// TestPartition cuts one of three nodes off, with closed connections and with silent ones. The other two share on. The
// third notices it and keeps its own changes. When the network is back, all nodes agree.
func TestPartition(t *testing.T) {
	for name, cut := range map[string]fault{"closed": closed, "silent": stalled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options, gates := gatedCluster(t, 3)
			own, nodes := make([]*games, 3), make([]*member, 3)
			for i, o := range options {
				own[i] = o.Games.(*games)
				nodes[i] = join(t, o)
			}
			for i, n := range nodes {
				n.awaitCurrent(t)
				own[i].set(i + 1)
			}
			for i := range 3 {
				nodes[0].Bans.Add(lasting(address(i)))
				own[0].operator(gameAt(i), true)
			}
			for i, n := range nodes {
				n.awaitBan(t, address(2), true)
				own[i].awaitDrains(t, n, gameAt(0), gameAt(1), gameAt(2))
				own[i].awaitElsewhere(t, n, 6-(i+1))
			}
			set := func(f fault) {
				for ends, g := range gates {
					if ends[0] == 2 || ends[1] == 2 {
						g.set(f)
					}
				}
			}
			began := time.Now()
			set(cut)
			away := nodes[2]
			// A server that leads a stream gives that up only after 20 s without the others, and says so at the next question.
			if !await.Within(2*await.Patience, func() bool { return !away.Status().Current }) {
				t.Fatal("not noticed by the node that is cut off")
			}
			t.Logf("noticed after %v: %s", time.Since(began), away.Status().Error)
			away.Bans.Remove(lasting(address(0)).Prefix)
			away.Bans.Add(lasting(address(10)))
			own[2].operator(gameAt(0), false)
			nodes[0].Bans.Remove(lasting(address(1)).Prefix)
			nodes[1].Bans.Add(lasting(address(11)))
			own[1].operator(gameAt(5), true)
			for i, n := range nodes[:2] {
				n.awaitCurrent(t)
				n.awaitBan(t, address(1), false)
				n.awaitBan(t, address(11), true)
				n.awaitBan(t, address(0), true)
				own[i].awaitDrains(t, n, gameAt(0), gameAt(1), gameAt(2), gameAt(5))
				own[i].awaitElsewhere(t, n, 2-i) // those of the lost node are forgotten
			}
			own[2].awaitElsewhere(t, away, 0)
			if away.Status().Waiting != 3 || away.Status().Current {
				t.Errorf("the node that is cut off: %+v", away.Status())
			}

			began = time.Now()
			set(none)
			for i, n := range nodes {
				n.awaitBan(t, address(0), false)
				n.awaitBan(t, address(1), false)
				for _, k := range []int{2, 10, 11} {
					n.awaitBan(t, address(k), true)
				}
				own[i].awaitDrains(t, n, gameAt(1), gameAt(2), gameAt(5))
				own[i].awaitElsewhere(t, n, 6-(i+1))
				n.awaitCurrent(t)
				await.Until(t, "sent", func() bool { return n.Status().Waiting == 0 })
			}
			t.Logf("all agree %v after the network is back", time.Since(began))
		})
	}
}

// leaderless is the stream of a bucket without a leader. Young groups do not answer, and others name no leader.
type leaderless struct {
	jetstream.Stream
	answer *jetstream.StreamInfo
}

func (s leaderless) Info(ctx context.Context, _ ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	if s.answer != nil {
		return s.answer, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestProbe notices that a bucket has no leader, also while a reader in the node's own server gets heartbeats.
func TestProbe(t *testing.T) {
	for _, row := range []struct {
		answer *jetstream.StreamInfo
		err    error
		after  time.Duration
	}{
		{nil, context.DeadlineExceeded, probeEvery + patience},
		{&jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Name: "test"}}, errNoLeader, probeEvery},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, began := &bucket{stream: leaderless{answer: row.answer}, failed: make(chan error, 1)}, time.Now()
			b.probe(t.Context())
			if err := <-b.failed; !errors.Is(err, row.err) || time.Since(began) != row.after {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	}
}
