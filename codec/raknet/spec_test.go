package raknet

import (
	"testing"

	"tidegate/codec/codectest"
)

// TestCapturesAreWellFormed: real peers say nothing that our sides take for malformed.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range captures(t) {
		o := Options{Cookies: CookiesNone}
		for _, client := range c.Clients() {
			if hasCookie(&c, client) {
				o.Cookies = CookiesPrivate // which theirs are not
			}
		}
		codectest.Replay(t, c.Capture, New(o))
	}
}

// TestFirstBytes checks that most bytes begin no datagram of a client.
func TestFirstBytes(t *testing.T) {
	p := New(Options{})
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
