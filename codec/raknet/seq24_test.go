package raknet

import "testing"

func TestSeq24WrapsAround(t *testing.T) {
	for _, test := range []struct {
		s, t Seq24
		sub  int
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, seq24Mask, 1},
		{seq24Mask, 0, -1},
		{5, seq24Mask - 4, 10},
		{seq24Half - 1, 0, seq24Half - 1},
		{seq24Half, 0, -seq24Half},
		{100, seq24Half + 101, seq24Half - 1},
	} {
		if got := test.s.Sub(test.t); got != test.sub {
			t.Errorf("%d.Sub(%d) = %d, want %d", test.s, test.t, got, test.sub)
		}
		if got := test.t.Add(test.sub); got != test.s {
			t.Errorf("%d.Add(%d) = %d, want %d", test.t, test.sub, got, test.s)
		}
		if got, want := test.s.Before(test.t), test.sub < 0; got != want {
			t.Errorf("%d.Before(%d) = %v, want %v", test.s, test.t, got, want)
		}
	}
}
