package riptide

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"tidegate/codec/codectest"
)

// slowDatagram writes the bits of a datagram one by one.
func slowDatagram(k kind, head, payload []byte, pad uint8) []byte {
	var b []byte
	n := 0
	put := func(bit byte) {
		if n%8 == 0 {
			b = append(b, 0)
		}
		b[n/8] |= bit << (n % 8)
		n++
	}
	for i := range 4 {
		put(byte(k) >> i & 1)
	}
	body := append(bytes.Clone(head), payload...)
	count := 8 * len(body)
	if len(payload) > 0 {
		count -= int(pad)
	}
	for i := range count {
		put(body[i/8] >> (i % 8) & 1)
	}
	return b
}

func TestAppendDatagramBitByBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for size := range 80 {
		for pad := range uint8(8) {
			head, payload := randomBytes(rng, size%7), randomBytes(rng, size)
			got := appendDatagram([]byte("before"), kindReliable, head, payload, pad)
			want := append([]byte("before"), slowDatagram(kindReliable, head, payload, pad)...)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d+%d bytes pad %d: %x, want %x", len(head), size, pad, got, want)
			}
			if n := len(got) - len("before"); n != datagramLen(len(head), size, pad) {
				t.Fatalf("%d+%d bytes pad %d: %d bytes, datagramLen says %d", len(head), size, pad,
					n, datagramLen(len(head), size, pad))
			}
		}
	}
}

// TestBodyRoundTrip: a datagram's body survives reading as bytes and writing again, wherever the payload begins.
func TestBodyRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for size := 1; size < 100; size++ {
		for at := range min(size, 12) {
			d := randomBytes(rng, size)
			if rng.IntN(3) == 0 {
				d[size-1] &= 0x0f
			}
			head := make([]byte, at)
			for i := range head {
				head[i] = bodyByte(d, i)
			}
			payload, pad := appendBody([]byte("x"), d, at)
			if got := appendDatagram(nil, v22.kindOf(d), head, payload[1:], pad); !bytes.Equal(got, d) {
				t.Fatalf("%x read at %d as %x pad %d, written as %x", d, at, payload[1:], pad, got)
			}
		}
	}
}

func TestBodyVarint(t *testing.T) {
	for _, c := range []struct {
		hex  string // of the body
		want uint16
		size int
	}{
		{"00", 0, 1},
		{"7f", 127, 1},
		{"8001", 128, 2},
		{"ff7f", 16383, 2},
		{"808001", 16384, 3},
		{"ffff03", 65535, 3},
		{"858004", 5, 3}, // 65541, of which the library keeps 16 bits
		{"80808080808080808001", 0, 10},
	} {
		d := appendDatagram(nil, kindUnreliable, codectest.Unhex(t, c.hex), nil, 0)
		got, next, ok := bodyVarint(d, 0)
		if !ok || got != c.want || next != c.size {
			t.Errorf("%s: %d, next %d, %v; want %d, next %d", c.hex, got, next, ok, c.want, c.size)
		}
		for n := 1; n < len(d); n++ {
			if _, _, ok := bodyVarint(d[:n], 0); ok {
				t.Errorf("%s: %d of %d bytes read without error", c.hex, n, len(d))
			}
		}
	}
	d := appendDatagram(nil, kindUnreliable, codectest.Unhex(t, "8080808080808080808001"), nil, 0)
	if _, _, ok := bodyVarint(d, 0); ok {
		t.Error("a number of 11 bytes was read")
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func BenchmarkAppendDatagram(b *testing.B) {
	payload := make([]byte, 1200)
	out := make([]byte, 0, 1300)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		out = appendDatagram(out[:0], kindUnreliable, payload[:1], payload, 0)
	}
}

func BenchmarkAppendBody(b *testing.B) {
	d := make([]byte, 1200)
	out := make([]byte, 0, 1300)
	b.SetBytes(int64(len(d)))
	for b.Loop() {
		out, _ = appendBody(out[:0], d, 1)
	}
}
