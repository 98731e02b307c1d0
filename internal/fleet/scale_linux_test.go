package fleet

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

// manyNodes is for TestManyNodes. docs/scale.md has its figures.
var manyNodes = flag.Int("nodes", 5, "number of nodes")

// Size of the fleet in TestManyNodes.
const (
	serversOfMany  = 100
	sessionsOfMany = 100_000 // of each node
	bansOfMany     = 50
	reportsOfMany  = 20 // of each node, while traffic is measured
)

// TestManyNodes runs many nodes and one NATS server in this process, with the real code and with counts in place of
// sessions. Each node changes all its counts all the time. It measures the traffic, and the time until all have a ban.
func TestManyNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("measures, and the race detector changes the figures")
	}
	port := freePort(t)
	s := natsServer(t, port, t.TempDir())
	url := []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}
	empty := heapInUse()
	own, nodes := make([]*games, *manyNodes), make([]*member, *manyNodes)
	change := func(turn int) {
		counts := make([]int, serversOfMany)
		for i := range counts {
			counts[i] = sessionsOfMany/serversOfMany + turn
		}
		for _, g := range own {
			g.set(counts...)
		}
	}
	for i := range nodes {
		own[i] = new(games)
		nodes[i] = join(t, Options{Node: fmt.Sprintf("node%d", i), Servers: url, Games: own[i]})
	}
	change(0)
	for i, n := range nodes {
		n.awaitCurrent(t)
		own[i].awaitElsewhere(t, n, (*manyNodes-1)*sessionsOfMany/serversOfMany)
	}
	t.Logf("memory of a node: %d KiB, with its share of NATS", (heapInUse()-empty)/int64(*manyNodes)/1024)

	sent := func() (n uint64) {
		for _, m := range nodes {
			n += m.Status().Reports.Sent
		}
		return n
	}
	before, received := traffic(nodes)
	reports, used, began := sent(), processorTime(t), time.Now()
	for turn := 1; sent() < reports+uint64(reportsOfMany**manyNodes); turn++ {
		change(turn)
		at := sent()
		await.Until(t, "reported", func() bool { return sent() >= at+uint64(*manyNodes) })
	}
	after, bytes := traffic(nodes)
	took := time.Since(began)
	t.Logf("each second: %.1f reports of a node, %.0f messages to all nodes with %.1f MB, %.2f cores",
		float64(sent()-reports)/took.Seconds()/float64(*manyNodes), float64(after-before)/took.Seconds(),
		float64(bytes-received)/1e6/took.Seconds(), (processorTime(t)-used).Seconds()/took.Seconds())

	var times []time.Duration
	for i := range bansOfMany {
		change(1000 + i)
		began := time.Now()
		nodes[i%*manyNodes].Bans.Add(lasting(address(i)))
		for _, n := range nodes {
			n.awaitBan(t, address(i), true)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	t.Logf("time until all nodes have a ban: median %v, longest of %d %v", times[bansOfMany/2], bansOfMany,
		times[bansOfMany-1])
	for _, m := range nodes { // a ban is in force before the status counts it
		await.Until(t, "status of "+m.Node+" has all bans", func() bool { return m.Status().Bans == bansOfMany })
		if s := m.Status(); s.Nodes != *manyNodes-1 || s.Reports.Invalid+s.Reports.NoRoom != 0 {
			t.Errorf("%s: %+v", m.Node, s)
		}
	}
	for _, m := range nodes { // the server ends after all nodes
		m.leave()
	}
	halt(s)
}

// traffic returns the messages that nodes have received, and their bytes.
func traffic(nodes []*member) (messages, bytes uint64) {
	for _, m := range nodes {
		s := m.Status()
		messages, bytes = messages+s.Messages.In, bytes+s.Messages.BytesIn
	}
	return messages, bytes
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
