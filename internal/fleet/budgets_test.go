package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
	"tidegate/ratelimit"

	"github.com/rs/zerolog"
)

// limited is a proxy with limits.
type limited struct {
	mu      sync.Mutex
	used    []ratelimit.Spending
	charged map[ratelimit.Account]time.Duration
	peers   ratelimit.Peers
}

func (l *limited) ChargeSpending(reports []ratelimit.Spending, p ratelimit.Peers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.charged == nil {
		l.charged = make(map[ratelimit.Account]time.Duration)
	}
	for _, s := range reports {
		l.charged[s.Account] += s.Used
	}
	l.peers = p
}

func (l *limited) TakeSpending(_ context.Context, most int, _ ratelimit.Peers) ([]ratelimit.Spending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := ratelimit.Top(l.used, most)
	l.used = nil
	return used, nil
}

func (l *limited) use(s ratelimit.Spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = append(l.used, s)
}

// awaitCharge waits until a source is charged an amount.
func (l *limited) awaitCharge(t *testing.T, from netip.Addr, want time.Duration) {
	t.Helper()
	await.Nil(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if got := l.charged[usedBy(from, 0).Account]; got != want {
			return fmt.Errorf("%v is charged %v, want %v", from, got, want)
		}
		return nil
	})
}

// TestSharedLimits runs three nodes. Each is charged the use at the others, and never its own. Use while NATS is away
// stays at its node.
func TestSharedLimits(t *testing.T) {
	port, store := freePort(t), t.TempDir()
	server := natsServer(t, port, store)
	var own [3]*limited
	var nodes [3]*member
	for i := range own {
		own[i] = new(limited)
		nodes[i] = join(t, Options{
			Node: fmt.Sprintf("node%d", i), Servers: []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}, Games: new(games),
			Budgets: own[i], ReportEvery: 50 * time.Millisecond, SpendingEvery: 50 * time.Millisecond,
		})
	}
	for _, n := range nodes {
		n.awaitCurrent(t)
		await.Until(t, "known", func() bool { return n.Status().Nodes == 2 })
	}
	own[0].use(usedBy(address(1), time.Second))
	own[1].use(usedBy(address(1), 2*time.Second))
	own[2].use(usedBy(address(2), 3*time.Second))
	own[0].awaitCharge(t, address(1), 2*time.Second)
	own[1].awaitCharge(t, address(1), time.Second)
	own[2].awaitCharge(t, address(1), 3*time.Second)
	own[0].awaitCharge(t, address(2), 3*time.Second)
	own[2].awaitCharge(t, address(2), 0)
	own[0].mu.Lock()
	if p := own[0].peers; p != (ratelimit.Peers{Nodes: 3, Every: 50 * time.Millisecond}) {
		t.Errorf("the peers are %+v", p)
	}
	own[0].mu.Unlock()
	if s := nodes[0].Status().Limits; !s.On || s.Sent != 1 || s.Told != 1 || s.Received != 2 || s.Charged != 2 {
		t.Errorf("the state is %+v", s)
	}

	server.Shutdown()
	server.WaitForShutdown()
	await.Until(t, "lost", func() bool { return !nodes[0].Status().Connected })
	own[0].use(usedBy(address(3), time.Second))
	await.Until(t, "asked", func() bool {
		own[0].mu.Lock()
		defer own[0].mu.Unlock()
		return own[0].used == nil
	})
	natsServer(t, port, store)
	for _, n := range nodes {
		n.awaitCurrent(t)
	}
	await.Nil(t, func() error { // a report is lost if the other node is not connected yet
		own[0].use(usedBy(address(4), time.Second))
		own[1].mu.Lock()
		defer own[1].mu.Unlock()
		if own[1].charged[usedBy(address(4), 0).Account] == 0 {
			return fmt.Errorf("the nodes do not share again: %+v", own[1].charged)
		}
		return nil
	})
	own[1].awaitCharge(t, address(3), 0)
}

// TestHostileBudgets sends reports that no node sends, and too many. They are counted, and kept within bounds.
func TestHostileBudgets(t *testing.T) {
	own := new(limited)
	b := newBudgets(identity{"test", "a", zerolog.Nop()}, 0, own, func() int { return 2 })
	hear := func(node string, report []byte) {
		b.hear(node, report)
	}
	good := formatSpending(someSpending())
	for range 3 {
		hear("b", []byte("nonsense"))
	}
	hear("", good)
	hear("a", good)
	if b.status.Invalid != 4 || b.status.Received != 0 {
		t.Errorf("%+v", b.status)
	}
	for i := range maxNodes + 5 {
		hear(fmt.Sprint("n", i), formatSpending(nil))
	}
	if b.status.NoRoom != 5 || len(b.uncharged) != maxNodes {
		t.Errorf("%+v, %d nodes", b.status, len(b.uncharged))
	}
	b.charge()
	for i := range maxUncharged + 1000 {
		hear(fmt.Sprint("n", i%100), formatSpending([]ratelimit.Spending{usedBy(address(i), time.Second)}))
	}
	if b.status.NoRoom != 5+1000 || b.accounts != maxUncharged {
		t.Errorf("%+v, %d accounts", b.status, b.accounts)
	}
	b.charge()
	if b.accounts != 0 || len(b.uncharged) != 0 || len(own.charged) != maxUncharged {
		t.Errorf("%d accounts of %d nodes are left, %d are charged", b.accounts, len(b.uncharged), len(own.charged))
	}
}
