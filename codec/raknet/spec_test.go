package raknet

import (
	"testing"
)

// TestFirstBytes checks that no datagram of a real client begins as none does, and that most bytes begin none.
func TestFirstBytes(t *testing.T) {
	p := New(Options{})
	for _, c := range captures(t) {
		for _, d := range c.Lines {
			if d.From == "client" && !p.spec.FirstBytes.Has(d.Datagram[0]) {
				t.Errorf("%s: a client's datagram begins with %#x", c.Name, d.Datagram[0])
			}
		}
	}
	for _, b := range []byte{0x01, 0x02, 0x05, 0x07} {
		if !p.spec.Openings.Has(b) {
			t.Errorf("Openings.Has(%#x) is false", b)
		}
	}
	for _, b := range []byte{0x00, 0x03, 0x06, 0x08, 0x1c, 0x7f} {
		if p.spec.FirstBytes.Has(b) {
			t.Errorf("FirstBytes.Has(%#x) is true", b)
		}
	}
	for b := 0x80; b <= 0xff; b++ { // a connection's
		if p.spec.Openings.Has(byte(b)) {
			t.Errorf("Openings.Has(%#x) is true", b)
		}
	}
}
