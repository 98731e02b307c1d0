package relay

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// TestDamagedTravel changes each byte of a travelling session, and cuts it at each. Only a whole one
// is taken in. A record without a hash is of an earlier release.
func TestDamagedTravel(t *testing.T) {
	w := savedWorld(t, func(*Route) {})
	now := w.Now()
	var whole []byte
	for e := range w.proxy.relay.table.All {
		b, err := w.proxy.relay.takeOut(now, e)
		if err != nil {
			t.Fatal(err)
		}
		whole = b
	}
	want, err := readArrival(now, whole)
	if err != nil || len(want.Sum) != sumLen {
		t.Fatalf("%x, %v", want.Sum, err)
	}
	want.Sum = nil
	taken := 0
	for at := range whole {
		for _, bit := range []byte{1, 2, 0x10, 0x80} {
			damaged := bytes.Clone(whole)
			damaged[at] ^= bit
			a, err := readArrival(now, damaged)
			if err != nil {
				if !errors.Is(err, ErrTravel) {
					t.Errorf("byte %d: %v", at, err)
				}
				continue
			}
			taken++
			if a.Sum != nil || !reflect.DeepEqual(a.Travel, want.Travel) {
				t.Errorf("byte %d, bit %#x: a damaged session is taken in", at, bit)
			}
		}
		if _, err := readArrival(now, whole[:at]); err == nil {
			t.Errorf("%d bytes of %d are taken for a session", at, len(whole))
		}
	}
	t.Logf("%d of %d damaged records were taken for whole ones without a hash", taken, 4*len(whole))
	if taken > 8 {
		t.Errorf("%d damaged records were taken in", taken)
	}
}
