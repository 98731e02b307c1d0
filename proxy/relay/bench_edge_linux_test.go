package relay

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/policy"
)

// BenchmarkIdleEdge measures the heap of a relayed session of a NetherNet client, with its join, and that of the socket
// alone. HEAP names a file for a profile.
func BenchmarkIdleEdge(b *testing.B) {
	for range b.N {
		n := newCrowdNet(b, Transport{}, policy.ModeRelay, NetherNet)
		tickets := n.relay.listeners[0].joins.table
		integrity, buffer := nethernet.NewIntegrity(), make([]byte, 0, codec.MaxDatagram)
		heap := heapInUse()
		target := n.relay.listeners[0].route.Upstream.Servers[0].Addr
		for i, from := range crowd(idleSessions) {
			t, err := tickets.Ask(n.now, fmt.Sprint(uint64(i)<<40), "arena", from.Addr(), target)
			if err != nil {
				b.Fatal(err)
			}
			t.ServerUfrag, t.ServerPassword, t.ClientUfrag = fmt.Sprintf("%016d", i), "password of 32 letters, as pion's", "AbCd"
			t.Target = target
			if err := tickets.Answer(n.now, t); err != nil {
				b.Fatal(err)
			}
			check := nethernet.Check{ID: nethernet.TransactionID{1}, To: t.Told().ServerUfrag, From: "AbCd", Nominates: true,
				Role: nethernet.Controlling}
			n.relay.Receive(n.now, n.listener, from, integrity.AppendCheck(buffer[:0], check, t.Told().ServerPassword))
			e := n.relay.atEdge(n.now, n.relay.listeners[0], from)
			if e == nil { // too few descriptors or ports are left
				b.Fatalf("session %d has no socket: %v", i, n.relay.counters.Drops)
			}
			socket := e.Value.socket
			n.relay.Receive(n.now, socket, socket.Peer(), edgeRecord)
			n.relay.Receive(n.now, n.listener, from, edgeRecord)
		}
		if _, sessions := tickets.Sizes(); sessions != idleSessions || n.relay.Len() != idleSessions {
			b.Fatalf("%d sessions, %d in the table of joins; %v", n.relay.Len(), sessions, n.relay.counters.Drops)
		}
		b.ReportMetric(float64(heapInUse()-heap)/idleSessions, "heap-B/session")
		if file, err := os.Create(os.Getenv("HEAP")); err == nil {
			_ = pprof.WriteHeapProfile(file)
			_ = file.Close()
		}
		runtime.KeepAlive(n)
		_ = n.Close()
	}
}
