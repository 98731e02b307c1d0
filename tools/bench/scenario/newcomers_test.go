package scenario

import (
	"math"
	"testing"
)

// costs returns windows in which the machine makes both deliveries slower by some factors, and Tidegate makes its own
// dearer by a factor.
func costs(machine []float64, tidegate float64) (all newcomerCosts) {
	for _, slower := range machine {
		all = append(all, newcomerWindow{40 * slower * tidegate, 40 * slower})
	}
	return all
}

// TestNewcomerRatio asserts that the figure is Tidegate's own, though the machine gets slower at the same time.
func TestNewcomerRatio(t *testing.T) {
	for _, slowdown := range []float64{0.9, 1, 1.05, 2} {
		var r Upgraded
		r.compare(costs([]float64{1, 1, 2, 1, 1, 2, 2, 1}, 1), costs([]float64{1.5, 3, 1, 1, 1.5, 2, 2, 2}, slowdown))
		if math.Abs(r.Ratio-slowdown) > 1e-9 || math.Abs(r.Noise-1) > 1e-9 {
			t.Errorf("ratio %v, noise %v, want %v and 1", r.Ratio, r.Noise, slowdown)
		}
		if r.Before != 40 && r.Again != 40 || r.After != 70*slowdown {
			t.Errorf("%v and %v µs before, %v after", r.Before, r.Again, r.After)
		}
	}
}

// TestNewcomerNoise asserts that the noise is the ratio of two halves before, whichever is larger. A slow drift of the
// ratio hits both halves.
func TestNewcomerNoise(t *testing.T) {
	var drift newcomerCosts
	for i := range newcomerWindows {
		drift = append(drift, newcomerWindow{40 + float64(i), 40})
	}
	var r Upgraded
	r.compare(drift, drift)
	if r.Noise > 1.02 || r.Noise < 1 || r.Ratio != 1 {
		t.Errorf("noise %v and ratio %v of a drift", r.Noise, r.Ratio)
	}
	for _, odd := range []float64{0.5, 2} {
		uneven := newcomerCosts{{40, 40}, {40 * odd, 40}, {40 * odd, 40}, {40, 40}}
		if r.compare(uneven, uneven); r.Noise != 2 {
			t.Errorf("noise %v of two halves, want 2", r.Noise)
		}
	}
}

// TestLoadRatio compares medians: a slow window of a busy machine does not count.
func TestLoadRatio(t *testing.T) {
	var r Upgraded
	r.compareLoads([]float64{1, 1.1, 1.1, 1, 9, 1.1, 1.1, 1}, []float64{1.1, 2, 1.1, 1.1})
	if math.Abs(r.LoadRatio-1) > 1e-9 || math.Abs(r.LoadNoise-1.1) > 1e-9 {
		t.Errorf("ratio %v and noise %v", r.LoadRatio, r.LoadNoise)
	}
}
