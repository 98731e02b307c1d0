package raknet

import (
	"math/rand/v2"
	"testing"
)

// TestLossCount lets datagrams be lost at random.
func TestLossCount(t *testing.T) {
	for _, test := range []struct {
		loss  float64
		heavy bool
	}{{0, false}, {0.05, false}, {0.10, false}, {0.25, true}, {0.5, true}} {
		rng := rand.New(rand.NewPCG(1, 1))
		var l lossCount
		n := Seq24(seq24Mask - 700)
		l.restart(n)
		heavy := false
		for range 200 {
			for range 50 {
				if rng.Float64() < test.loss {
					l.add(n)
				}
				n = n.Add(1)
			}
			l.judge(n.Add(-1)) // a request
			heavy = heavy || l.heavy
		}
		if total := n.Sub(l.from); heavy != test.heavy || total > 2*mostCounted+50 {
			t.Errorf("loss %v: heavy = %v, %d datagrams counted; want %v", test.loss, heavy, total, test.heavy)
		}
	}
	var l lossCount
	for n := range Seq24(leastCounted - 1) {
		l.add(n)
		l.judge(n)
	}
	if l.heavy {
		t.Errorf("heavy after %d datagrams", leastCounted-1)
	}
	l.add(leastCounted)
	if l.judge(leastCounted); !l.heavy {
		t.Error("not heavy though all are lost")
	}
	if l.restart(9); l.heavy || l.lost != 0 {
		t.Error("heavy after a restart")
	}
}
