package stats

import (
	"reflect"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var a, b Histogram
	for _, d := range []time.Duration{0, 10 * time.Microsecond, 11 * time.Microsecond, time.Second} {
		a.observe(d)
	}
	b.observe(time.Minute)
	Add(&a, &b)
	if a.Count() != 5 || a.Sum() != time.Minute+time.Second+21*time.Microsecond {
		t.Errorf("%d counted, sum %v", a.Count(), a.Sum())
	}
	got, last, bound := make(map[time.Duration]uint64), uint64(0), time.Duration(0)
	for upper, n := range a.Buckets {
		if n < last || upper <= bound {
			t.Errorf("bucket to %v has %d, the one before it, to %v, has %d", upper, n, bound, last)
		}
		got[upper], last, bound = n, n, upper
	}
	for upper, want := range map[time.Duration]uint64{
		10 * time.Microsecond: 2, 20 * time.Microsecond: 3, 500 * time.Millisecond: 3, time.Second: 4, 5 * time.Second: 4,
	} {
		if got[upper] != want {
			t.Errorf("%d are not longer than %v, want %d", got[upper], upper, want)
		}
	}
}

// TestAddAll finds a number in the totals that Add leaves out: each becomes one more, twice.
func TestAddAll(t *testing.T) {
	addAll[Counters](t)
	addAll[Tally](t)
	addAll[DropTally](t)
	addAll[ServerTally](t)
	addAll[Samples](t)
	addAll[Tables](t)
}

func addAll[T any](t *testing.T) {
	var sum, ones T
	words := 0
	var visit func(name string, sum, ones reflect.Value, check bool)
	visit = func(name string, sum, ones reflect.Value, check bool) {
		switch k := ones.Kind(); {
		case k == reflect.Struct:
			for i := range ones.NumField() {
				visit(name+"."+ones.Type().Field(i).Name, sum.Field(i), ones.Field(i), check)
			}
		case k == reflect.Array:
			for i := range ones.Len() {
				visit(name, sum.Index(i), ones.Index(i), check)
			}
		case k == reflect.String:
		case check && (!sum.CanInt() || sum.Int() != 2) && (!sum.CanUint() || sum.Uint() != 2):
			t.Errorf("%s is %v, want 2", name, sum)
		case !check:
			words++
			*(*byte)(ones.Addr().UnsafePointer()) = 1 // little-endian
		}
	}
	name := reflect.TypeFor[T]().Name()
	visit(name, reflect.ValueOf(&sum).Elem(), reflect.ValueOf(&ones).Elem(), false)
	Add(&sum, &ones)
	Add(&sum, &ones)
	if visit(name, reflect.ValueOf(&sum).Elem(), reflect.ValueOf(&ones).Elem(), true); words == 0 {
		t.Errorf("%s has no numbers", name)
	}
}
