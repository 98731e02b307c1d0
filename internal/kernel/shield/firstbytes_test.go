package shield

import "testing"

// TestFirstBytes checks sets at the ends of ranges and of words, and the table that the programs read.
func TestFirstBytes(t *testing.T) {
	var none FirstBytes
	some := FirstBytes{}
	some.Add(1, 2)
	some.Add(0x40, 0x40)
	some.Add(0x80, 0xff)
	for b := range 256 {
		want := b == 1 || b == 2 || b == 0x40 || b >= 0x80
		if got := some.Has(byte(b)); got != want {
			t.Errorf("Has(%#x) = %t, want %t", b, got, want)
		}
		if got := some.table().possible[b/64]>>(b%64)&1 == 1; got != want {
			t.Errorf("bit %#x of the table is %t, want %t", b, got, want)
		}
		if !none.Has(byte(b)) {
			t.Errorf("a set about which nothing is known has not %#x", b)
		}
	}
	if some.table().possible[noByte/64]&1 == 1 {
		t.Error("a set lets an empty datagram pass")
	}
	if none.table().possible[noByte/64]&1 == 0 {
		t.Error("where nothing is known, an empty datagram does not pass")
	}
}
