package raknet

import "testing"

func TestBuffersAreUsedAgain(t *testing.T) {
	var f buffers
	for _, size := range []int{1, 64, 65, 1432, 1 << mostClass} {
		b := f.copy(make([]byte, size))
		first := &b[0]
		f.put(b)
		if b = f.get(size); &b[:1][0] != first {
			t.Errorf("a buffer of %d bytes is not used again", size)
		}
		f.put(b)
	}
}

func TestBuffersAreBounded(t *testing.T) {
	var f buffers
	for range 2 * keptBytes / 1024 {
		f.put(make([]byte, 0, 1024))
	}
	if f.kept != keptBytes {
		t.Errorf("%d bytes kept, want %d", f.kept, keptBytes)
	}
	f = buffers{}
	f.put(make([]byte, 0, 2<<mostClass)) // longer than any class
	f.put(make([]byte, 0, 100))          // of no class
	if f.kept != 0 {
		t.Errorf("%d bytes kept of buffers that are of no class", f.kept)
	}
	for range keptMessages + 1 {
		f.putRecord(new(outgoing))
	}
	if len(f.records) != keptMessages {
		t.Errorf("%d records kept, want %d", len(f.records), keptMessages)
	}
	if b := f.get(2 << mostClass); cap(b) < 2<<mostClass {
		t.Errorf("room for %d bytes, want %d", cap(b), 2<<mostClass)
	}
}
