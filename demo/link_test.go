package demo

import (
	"math"
	"testing"
)

func TestWeatherLosesItsShare(t *testing.T) {
	const n = 100_000
	for _, loss := range []float64{0, 0.05, 0.5} {
		w, again, other := newWeather(loss, 7), newWeather(loss, 7), newWeather(loss, 8)
		lost, differs := 0, false
		for i := range n {
			l := w.loses()
			if l != again.loses() {
				t.Fatalf("loss %v: datagram %d fares differently with the same seed", loss, i)
			}
			differs = differs || l != other.loses()
			if l {
				lost++
			}
		}
		if share := float64(lost) / n; math.Abs(share-loss) > 0.005 {
			t.Errorf("loss %v: lost %v", loss, share)
		}
		if differs != (loss > 0) {
			t.Errorf("loss %v: another seed makes a difference: %v", loss, differs)
		}
	}
}
