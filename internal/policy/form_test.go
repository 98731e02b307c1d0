package policy

import (
	"bytes"
	"testing"
)

func TestFormsAreRead(t *testing.T) {
	for _, c := range []struct {
		text string
		n    uint32
		want []byte // nil: a form without a width
	}{
		{"7", 7, nil}, {"100-199", 150, nil}, {"0x90:u8", 0x90, []byte{0x90}}, {"0x86 7", 7, []byte{0x86, 7}},
		{"0x86 7:u16le", 7, []byte{0x86, 7, 0}},
		{"1:u16be 2:u32be 0-9:u8", 9, []byte{0, 1, 0, 0, 0, 2, 9}},
		{"0x1-0xffff:u16be", 0x102, []byte{1, 2}}, {"70000-70001:u32le", 70001, []byte{0x71, 0x11, 1, 0}},
	} {
		f, err := ParseForm(c.text)
		if err != nil || !f.Has(c.n) || f.IsAlone() != (c.want == nil) {
			t.Errorf("%q: %+v, %v", c.text, f, err)
			continue
		}
		if again, err := ParseForm(f.String()); err != nil || again.AsByte() != f.AsByte() {
			t.Errorf("%q: %q means %+v, %v", c.text, f, again, err)
		}
		if f.IsAlone() {
			continue
		}
		got := f.Append(nil, c.n)
		n, ok := f.Number(append(got, "rest"...))
		if !bytes.Equal(got, c.want) || !ok || n != c.n || f.Len() != len(got) {
			t.Errorf("%q: %x, read as %d, %v", c.text, got, n, ok)
		}
	}
	for _, text := range []string{
		"", " ", "x", "-1", "7-", "9-7", "65536", "0b1", "1_0", "256:u8", "65536:u16le", "7:u24", "7:", "1-2 3",
		"4294967296:u32le", "0-65536:u32le", "256 1", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19",
	} {
		if f, err := ParseForm(text); err == nil {
			t.Errorf("%q: %+v", text, f)
		}
	}
}

// TestFirstBytes compares FirstBytes with every number of a form.
func TestFirstBytes(t *testing.T) {
	for _, text := range []string{
		"7", "0-9", "0x86 7", "3-200:u8", "7:u16le", "7-9:u16le", "250-260:u16le", "0-65535:u16le", "300:u16be",
		"200-1000:u16be", "70000-70010:u32le", "0x01000000-0x0100ffff:u32be", "16777200-16777300:u32be",
	} {
		f, err := ParseForm(text)
		if err != nil {
			t.Fatal(text, err)
		}
		f = f.AsByte()
		low, high := byte(255), byte(0)
		for n := uint64(f.Low); n <= uint64(f.High); n++ {
			first := f.Append(nil, uint32(n))[0]
			low, high = min(low, first), max(high, first)
		}
		if l, h := f.FirstBytes(); l != low || h != high {
			t.Errorf("%q: %d to %d, want %d to %d", text, l, h, low, high)
		}
	}
}

// TestFormsMeet compares Meets with every number of both forms.
func TestFormsMeet(t *testing.T) {
	texts := []string{
		"7", "0-9", "8-20", "7:u8", "0-9:u8", "7:u16le", "7:u16be", "0-300:u16le", "0-300:u16be", "0x86 7", "0x86 0-9",
		"1:u8 0-9", "0x86 7:u16le", "0x0786:u16le", "0x0786:u16be", "0x86 0x07 0",
	}
	for _, one := range texts {
		for _, other := range texts {
			a, _ := ParseForm(one)
			b, _ := ParseForm(other)
			want := false
			for n := a.Low; n <= a.High; n++ {
				switch {
				case a.IsAlone() || b.IsAlone():
					want = want || a.IsAlone() && b.IsAlone() && b.Has(n)
				default:
					m, ok := b.Number(a.Append(nil, n))
					want = want || ok && a.Len() == b.Len() && b.Has(m)
				}
			}
			if got := a.Meets(&b); got != want {
				t.Errorf("%q meets %q: %v, want %v", one, other, got, want)
			}
		}
	}
}
