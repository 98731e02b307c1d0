package codec

import "testing"

// TestByteSet checks the algebra of sets at the ends of their words, against maps.
func TestByteSet(t *testing.T) {
	low, high := ByteSetOf(0, 63, 64, 255), ByteSet{}
	high.Add(63, 128)
	for b := range 256 {
		inLow, inHigh := b == 0 || b == 63 || b == 64 || b == 255, b >= 63 && b <= 128
		or, andNot := low.Or(high), low.AndNot(high)
		if x := byte(b); low.Has(x) != inLow || high.Has(x) != inHigh || or.Has(x) != (inLow || inHigh) ||
			andNot.Has(x) != (inLow && !inHigh) {
			t.Errorf("byte %d: %v %v %v %v", b, low.Has(x), high.Has(x), or.Has(x), andNot.Has(x))
		}
	}
	if empty := (ByteSet{}); !empty.IsEmpty() || low.IsEmpty() {
		t.Error("IsEmpty is wrong")
	}
}

// TestAnyReliable: a protocol with either of the two modes can deliver every message.
func TestAnyReliable(t *testing.T) {
	for m := Unreliable; m < modeCount; m++ {
		if got, want := ModesOf(m).AnyReliable(), m == Reliable || m == ReliableOrdered; got != want {
			t.Errorf("%s: %t", m, got)
		}
	}
}
