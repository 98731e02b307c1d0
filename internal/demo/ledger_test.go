package demo

import (
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	for _, step := range []struct {
		what    string
		numbers []uint64 // numbers of the echoes of three messages
		want    Delivery
	}{
		{"all in order", []uint64{0, 1, 2}, Delivery{Sent: 3, Returned: 3}},
		{"all out of order", []uint64{2, 0, 1}, Delivery{Sent: 3, Returned: 3}},
		{"one missing", []uint64{0, 2}, Delivery{Sent: 3, Returned: 2, Missing: 1}},
		{"one twice", []uint64{0, 1, 2, 1}, Delivery{Sent: 3, Returned: 3, Duplicated: 1}},
		{"one thrice, one missing", []uint64{1, 1, 1, 2}, Delivery{Sent: 3, Returned: 2, Missing: 1, Duplicated: 2}},
	} {
		l := newLedger()
		for range 3 {
			l.send()
		}
		for _, n := range step.numbers {
			if !l.receive(n) {
				t.Errorf("%s: number %d was never sent, says the ledger", step.what, n)
			}
		}
		if got := l.delivery(); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
		if l.receive(3) {
			t.Errorf("%s: the ledger takes a number that was never sent", step.what)
		}
	}
}

func TestArrivals(t *testing.T) {
	a := make(arrivals)
	record := func(p probe) { a.record(p.id(), p.append(nil)) }
	for _, n := range []uint64{0, 1, 1, 3} {
		record(probe{number: n, client: 1, reliable: true})
	}
	record(probe{number: 0, client: 2, reliable: true})
	record(probe{number: 5, client: 2}) // unreliable: not counted
	a.record(7, []byte("no probe"))
	d := Delivery{Sent: 6, Returned: 2, Missing: 4}
	a.correct(&d)
	if want := (Delivery{Sent: 6, Returned: 2, Missing: 2, Duplicated: 1}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}

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
	l.add(-time.Second) // a clock that was set back
	l.add(time.Hour)
	if low, high := l.quantile(0), l.quantile(1); low != 100*time.Microsecond || high != 2*time.Second {
		t.Errorf("bounds = %v, %v; want 100µs, 2s", low, high)
	}
}
