package allocs

import "testing"

var sink []byte

func TestPerRun(t *testing.T) {
	if n := PerRun(100, func() {}); n != 0 {
		t.Errorf("%v for nothing", n)
	}
	if n := PerRun(100, func() { sink = make([]byte, 100) }); n != 1 {
		t.Errorf("%v for one allocation", n)
	}
	// An allocation in the first attempt only does not count as f's.
	calls := 0
	if n := PerRun(10, func() {
		if calls++; calls <= 11 {
			sink = make([]byte, 100)
		}
	}); n != 0 {
		t.Errorf("%v though later attempts had none", n)
	}
}
