package rtype

import (
	"bytes"
	"testing"
)

// The log does not grow with what has passed, whether or not it ever runs empty.
func TestOutboxReclaims(t *testing.T) {
	for _, waiting := range []int{0, 3} {
		var o outbox
		put := func(i int) { o.end(append(o.begin(), bytes.Repeat([]byte{byte(i)}, 20)...), true) }
		for i := range waiting {
			put(i)
		}
		for i := range 10_000 {
			put(i + waiting)
			if d, ok := o.next(nil); !ok || len(d) != 20 || d[0] != byte(i) {
				t.Fatalf("message %d is %x", i, d)
			}
		}
		if want := waiting * (recordHead + 20); o.bytes() != want || cap(o.log) > 1000 {
			t.Errorf("%d bytes wait, want %d; the log has %d", o.bytes(), want, cap(o.log))
		}
	}
}
