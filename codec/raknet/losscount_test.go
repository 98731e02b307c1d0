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
		l.restartLosses(n)
		heavy := false
		for range 200 {
			for range 50 {
				if rng.Float64() < test.loss {
					l.addLoss(n)
				}
				n = n.Add(1)
			}
			l.judgeLosses(n.Add(-1)) // a request
			heavy = heavy || l.Heavy
		}
		if total := n.Sub(l.LossesFrom); heavy != test.heavy || total > 2*mostCounted+50 {
			t.Errorf("loss %v: heavy = %v, %d datagrams counted; want %v", test.loss, heavy, total, test.heavy)
		}
	}
	var l lossCount
	for n := range Seq24(leastCounted - 1) {
		l.addLoss(n)
		l.judgeLosses(n)
	}
	if l.Heavy {
		t.Errorf("heavy after %d datagrams", leastCounted-1)
	}
	l.addLoss(leastCounted)
	if l.judgeLosses(leastCounted); !l.Heavy {
		t.Error("not heavy though all are lost")
	}
	if l.restartLosses(9); l.Heavy || l.Losses != 0 {
		t.Error("heavy after a restart")
	}
}
