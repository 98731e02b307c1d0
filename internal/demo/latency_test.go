package demo

import (
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	var l latencies
	if got := l.quantile(0.5); got != 0 {
		t.Fatalf("median of nothing = %v", got)
	}
	for i := range 100 {
		l.add(time.Duration(i) * time.Millisecond)
	}
	for _, step := range []struct {
		q    float64
		want time.Duration
	}{
		{0, 100 * time.Microsecond},
		{0.5, 50*time.Millisecond + 100*time.Microsecond},
		{0.99, 99*time.Millisecond + 100*time.Microsecond},
		{1, 99*time.Millisecond + 100*time.Microsecond},
	} {
		if got := l.quantile(step.q); got != step.want {
			t.Errorf("quantile %v = %v, want %v", step.q, got, step.want)
		}
	}
	l = latencies{}
	l.add(-time.Second) // a clock that went back
	l.add(time.Hour)
	if low, high := l.quantile(0), l.quantile(1); low != 100*time.Microsecond || high != 2*time.Second {
		t.Errorf("bounds = %v, %v; want 100µs, 2s", low, high)
	}
}
