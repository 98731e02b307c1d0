package rudp

import "testing"

// The bits are those of captures, but for the numbers, which pass the wrap-around.
func TestAcks(t *testing.T) {
	for _, base := range []seq{0, 65535, 65530, 65500, 32767} {
		a := acks{last: base - 1}
		for _, step := range []struct {
			add  seq
			bits uint32
		}{
			{0, 0x80000000},
			{1, 0xc0000000},
			{2, 0xe0000000},
			{4, 0x78000000},
			{5, 0xbc000000},
			{36, 0x00000003},
			{69, 0x00000000},
			{101, 0x00000001},
			{134, 0x00000000},
		} {
			a.add(base + step.add)
			if a != (acks{base + step.add, step.bits}) {
				t.Fatalf("base %d, after %d: last %d, bits %08x, want %08x", base, step.add, a.last-base, a.bits, step.bits)
			}
		}
	}
}

func TestAcksHas(t *testing.T) {
	a := acks{last: 3, bits: 0x80000001}
	for s, want := range map[seq]bool{3: true, 2: true, 1: false, 65507: true, 65508: false, 65506: false, 40000: false} {
		if a.has(s) != want {
			t.Errorf("has(%d) = %v", s, !want)
		}
	}
}

func TestSeqMinus(t *testing.T) {
	for _, c := range []struct {
		s, t seq
		want int
	}{{5, 3, 2}, {3, 5, -2}, {2, 65534, 4}, {65534, 2, -4}, {32767, 65535, -32768}, {32766, 65535, 32767}} {
		if got := c.s.minus(c.t); got != c.want {
			t.Errorf("%d minus %d = %d, want %d", c.s, c.t, got, c.want)
		}
	}
}
