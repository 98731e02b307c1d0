package words

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 bytes", 1: "1 byte", 2: "2 bytes", 4096: "4096 bytes"} {
		if got := Count(n, "byte"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
