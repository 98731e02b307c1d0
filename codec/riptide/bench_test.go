package riptide

import (
	"testing"

	"tidegate/codec"
)

// BenchmarkMessage carries a message from a client to a server, with its acknowledgement where it has one.
func BenchmarkMessage(b *testing.B) {
	for _, mode := range []codec.Mode{codec.Unreliable, codec.Reliable, codec.Notify} {
		b.Run(mode.String(), func(b *testing.B) {
			p := newPair(b, Options{})
			m := codec.Message{Mode: mode, ID: 7, HasID: mode != codec.Notify, Payload: make([]byte, 100)}
			buffer := make([]byte, 0, codec.MaxDatagram)
			carry := func(from, to *Conn) {
				for d, ok := from.Transmit(p.now, buffer); ok; d, ok = from.Transmit(p.now, buffer) {
					if err := to.Receive(p.now, d); err != nil {
						b.Fatal(err)
					}
					for _, ok := to.Poll(); ok; _, ok = to.Poll() {
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := p.client.Send(p.now, m); err != nil {
					b.Fatal(err)
				}
				carry(p.client, p.server)
				carry(p.server, p.client)
			}
		})
	}
}
