package relay

import (
	"runtime"
	"sync/atomic"
	"testing"

	"tidegate/codec"
)

// BenchmarkRelay carries one message of 200 bytes from a player to its server, with acknowledgements. It includes
// four codec sides and the Relay between them.
func BenchmarkRelay(b *testing.B) {
	for _, c := range []struct {
		name               string
		clients, upstreams codec.Protocol
		message            codec.Message
	}{
		{"riptide-to-raknet", riptide22(), raknet6(), codec.Message{Mode: codec.Reliable, ID: 7, HasID: true}},
		{"riptide-to-riptide", riptide22(), riptide22(), codec.Message{Mode: codec.Reliable, ID: 7, HasID: true}},
		{"raknet-to-raknet", raknet6(), raknet6(), codec.Message{Mode: codec.ReliableOrdered}},
		{"raknet-to-riptide", raknet6(), riptide22(), codec.Message{Mode: codec.ReliableOrdered}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newPipe(b, c.clients, c.upstreams)
			c.message.Payload = append([]byte{0x86, 1, 0}, make([]byte, 197)...)
			b.ReportAllocs()
			for b.Loop() {
				p.round(c.message)
			}
		})
	}
}

// BenchmarkLoops is BenchmarkRelay on each core at once, each with a Relay of its own, as loops have them. -cpu 1,2
// shows what loops cost each other: they share bans, budgets and counts of memory. Sockets are not in it.
func BenchmarkLoops(b *testing.B) {
	message := codec.Message{Mode: codec.ReliableOrdered, Payload: append([]byte{0x86, 1, 0}, make([]byte, 197)...)}
	var pipes []*pipe
	for range runtime.GOMAXPROCS(0) {
		p := newPipe(b, raknet6(), raknet6())
		if len(pipes) > 0 {
			first, r := pipes[0].world.proxy.relay, p.world.proxy.relay
			r.guard.Bans, r.sockets.allowance, r.held.Shared = first.guard.Bans, first.sockets.allowance, first.held.Shared
		}
		pipes = append(pipes, p)
	}
	var taken atomic.Int32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		p := pipes[taken.Add(1)-1]
		for pb.Next() {
			p.round(message)
		}
	})
}
