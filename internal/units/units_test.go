package units

import (
	"math"
	"testing"
	"time"
)

func TestDurationText(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "250ms": 250 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "2m": 2 * time.Minute,
		"1h": time.Hour, "1h0m1s": time.Hour + time.Second, "1h30m": 90 * time.Minute, "10m": 10 * time.Minute,
		"24h": 24 * time.Hour, "7d": 168 * time.Hour, "2d10s": 48*time.Hour + 10*time.Second, "366d": 8784 * time.Hour,
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%q = %v, %v; want %v", text, time.Duration(d), err, want)
		}
		if d.String() != text {
			t.Errorf("%v.String() = %q, want %q", want, d, text)
		}
	}
	for _, text := range []string{"", "10", "-1s", "s", "1 s", "9999999h"} {
		if err := new(Duration).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestSizeText(t *testing.T) {
	for text, want := range map[string]Size{
		"0B": 0, "1B": 1, "1023B": 1023, "1KiB": KiB, "1025KiB": MiB + KiB, "2MiB": 2 * MiB, "3GiB": 3 * GiB,
		"9223372036854775807B": math.MaxInt64,
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q = %d, %v; want %d", text, int64(s), err, int64(want))
		}
		if s.String() != text {
			t.Errorf("%d.String() = %q, want %q", int64(want), s, text)
		}
	}
	for _, text := range []string{"", "2", "MiB", "2MB", "2 MiB", "-1B", "1.5MiB", "8589934592GiB",
		"9223372036854775808B"} {
		if err := new(Size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
