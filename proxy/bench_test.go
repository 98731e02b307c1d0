package proxy

import (
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
