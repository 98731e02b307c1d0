package nethernet

import (
	"bytes"
	"errors"
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

// TestFragments cuts messages of many sizes and puts them together.
func TestFragments(t *testing.T) {
	a := Assembler{Limit: 4 << 20}
	for _, size := range []int{UsualFragment, MaxFragment, 1 << 30, 65536, 2} {
		for _, n := range []int{0, 1, 2, 254, 255, 9_998, 9_999, 10_000, 262_143, 262_144, 300_000, 2_000_000} {
			message := bytes.Repeat([]byte("tide"), n/4+1)[:n]
			s, err := Split(message, size)
			fits := n <= MaxFragments*(min(size, MaxFragment)-1)
			if (err == nil) != fits || !fits && !errors.Is(err, codec.ErrTooLarge) {
				t.Fatal(size, n, err)
			}
			if err != nil {
				continue
			}
			for total := s.Left(); ; {
				f, ok := s.Append(nil)
				if !ok {
					t.Fatalf("size %d, %d bytes: not complete after %d fragments", size, n, total)
				}
				if len(f) > size || int(f[0]) != s.Left() {
					t.Fatalf("size %d, %d bytes: fragment of %d bytes, count %d", size, n, len(f), f[0])
				}
				got, err := a.Add(f)
				if err != nil {
					t.Fatal(err)
				}
				if s.Left() > 0 {
					continue
				}
				if !bytes.Equal(got, message) {
					t.Fatalf("size %d: %d bytes became %d", size, n, len(got))
				}
				break
			}
			if _, ok := s.Append(nil); ok {
				t.Fatal("a fragment after the last")
			}
		}
	}
}

// TestAssemblerBounds shows what a hostile peer can make an Assembler hold.
func TestAssemblerBounds(t *testing.T) {
	a := Assembler{Limit: 10}
	add := func(fragment string, want string, wantErr error) {
		t.Helper()
		if got, err := a.Add([]byte(fragment)); string(got) != want || !errors.Is(err, wantErr) {
			t.Errorf("%q: %q, %v", fragment, got, err)
		}
	}
	add("", "", nil)
	add("\xffabc", "", nil)
	if a.Held() > 64 {
		t.Errorf("%d bytes are held for a count alone", a.Held())
	}
	add("\xfed", "", nil)
	add("\x00e", "", ErrCountdown)
	if a.Held() != 0 {
		t.Errorf("%d bytes are held after a fault", a.Held())
	}
	add("\x00abc", "abc", nil)
	add("\x02abcde", "", nil)
	add("\x02abcde", "", ErrCountdown)
	add("\x01abcde", "", nil)
	add("\x00fghij", "abcdefghij", nil)
	add("\x01abcde", "", nil)
	add("\x00fghijk", "", ErrAssembly)
	add("\x01abcdefghijk", "", ErrAssembly)
	add("\x00a whole message has no limit here", "a whole message has no limit here", nil)
	if !errors.Is(ErrAssembly, codec.ErrLimit) {
		t.Error("ErrAssembly is no limit")
	}
}

// TestFragmentAllocs shows that small and large messages cost no allocation once the memory is there.
func TestFragmentAllocs(t *testing.T) {
	a, out, message := Assembler{Limit: 1 << 20}, make([]byte, 0, UsualFragment), make([]byte, 35_000)
	if n := allocs.PerRun(20, func() {
		s, err := Split(message, UsualFragment)
		if err != nil {
			t.Fatal(err)
		}
		for {
			var ok bool
			if out, ok = s.Append(out[:0]); !ok {
				break
			}
			if _, err := a.Add(out); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAssembler: data is fragments, each after a byte with its length. Memory stays bounded.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte("\x02\x01a\x02\x00b\x02\x00c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := Assembler{Limit: 300}
		for len(data) > 0 {
			n := min(int(data[0]), len(data)-1)
			message, err := a.Add(data[1 : 1+n])
			if err != nil && message != nil || len(message) > a.Limit || a.Held() > 4*a.Limit {
				t.Fatalf("%v, %d bytes, %d held", err, len(message), a.Held())
			}
			data = data[1+n:]
		}
	})
}

// Left returns the number of fragments that Append has not appended yet.
func (s *Splitter) Left() int { return s.left }
