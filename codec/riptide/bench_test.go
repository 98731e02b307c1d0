package riptide

import (
	"testing"

	"tidegate/codec"
)

// BenchmarkMessage transfers a message from a client to a server, and its acknowledgement if it has one.
func BenchmarkMessage(b *testing.B) {
	benchmarkMessage(b, V22)
}

// BenchmarkMessage20 is BenchmarkMessage for Riptide 2.0.
func BenchmarkMessage20(b *testing.B) { benchmarkMessage(b, V20) }

func benchmarkMessage(b *testing.B, v Version) {
	for _, mode := range modesOf(v) {
		b.Run(mode.String(), func(b *testing.B) {
			p := newPair(b, Options{Version: v})
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
