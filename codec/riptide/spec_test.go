package riptide

import (
	"testing"

	"tidegate/codec/codectest"
)

// TestCapturesAreWellFormed: real peers say nothing that our sides take for malformed.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range loadCaptures(t) {
		codectest.Replay(t, c.Capture, New(Options{Version: c.dialect(), Stream: c.Stream}))
	}
}

// TestFirstBytes checks which bytes begin no datagram of a client, and that Connects open a session.
func TestFirstBytes(t *testing.T) {
	for v := range dialects {
		p := New(Options{Version: Version(v)})
		for b := range 256 {
			if isConnect := p.dialect.kindOf([]byte{byte(b)}) == kindConnect; p.spec.Openings.Has(byte(b)) != isConnect {
				t.Errorf("%s: Openings.Has(%#x) is not %t", p.spec.Name, b, isConnect)
			}
		}
	}
	for _, test := range []struct {
		version Version
		first   byte
	}{{V22, 0x03}, {V22, 0xf3}, {V22, 0x0f}, {V22, 0x49}, {V20, 0x04}, {V20, 0x0b}, {V20, 0xff}} {
		if New(Options{Version: test.version}).spec.FirstBytes.Has(test.first) {
			t.Errorf("version %v: FirstBytes.Has(%#x) is true", test.version, test.first)
		}
	}
}
