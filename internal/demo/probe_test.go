package demo

import (
	"testing"
	"time"
)

func TestProbeThereAndBack(t *testing.T) {
	sizes := make(map[int]bool)
	var b []byte
	for n := range uint64(1 << 16) {
		sent := probe{number: n, sent: time.Duration(n) * time.Millisecond, client: uint16(n % 7), reliable: n%2 == 0}
		b = sent.append(b[:0])
		var got probe
		if err := got.parse(sent.id(), b); err != nil || got != sent {
			t.Fatalf("probe %d: %+v, %v; want %+v", n, got, err, sent)
		}
		if len(b) > maxProbe {
			t.Fatalf("probe %d has %d bytes, more than %d", n, len(b), maxProbe)
		}
		sizes[len(b)] = true
	}
	if !sizes[minProbe] || len(sizes) < 500 {
		t.Fatalf("%d sizes, the smallest of them among these: %v; want 500 or more", len(sizes), sizes[minProbe])
	}
}

func TestProbeShowsEveryChange(t *testing.T) {
	sent := probe{number: 5, client: 3, reliable: true}
	golden := sent.append(nil)
	var p probe
	for i := range golden {
		if p.parse(sent.id(), golden[:i]) == nil {
			t.Errorf("%d of %d bytes pass", i, len(golden))
		}
		for bit := range 8 {
			golden[i] ^= 1 << bit
			if p.parse(sent.id(), golden) == nil {
				t.Errorf("bit %d of byte %d changed passes", bit, i)
			}
			golden[i] ^= 1 << bit
		}
	}
	if p.parse(sent.id()+1, golden) == nil {
		t.Error("another message ID passes")
	}
	if p.parse(sent.id(), append(golden, 0)) == nil {
		t.Error("a byte too many passes")
	}
}
