package riptide

import (
	"testing"

	"tidegate/codec"
)

// TestBegins checks that no datagram of a real client begins as none does, and what else does not.
func TestBegins(t *testing.T) {
	for _, c := range loadCaptures(t) {
		var p codec.Beginner = New(Options{Version: c.dialect()})
		for _, l := range c.lines {
			if l.From == "client" && !p.Begins(l.datagram[0]) {
				t.Errorf("%s/%s: a client's datagram begins with %#x", c.version, c.scenario, l.datagram[0])
			}
		}
	}
	for _, test := range []struct {
		version Version
		first   byte
	}{{V22, 0x03}, {V22, 0xf3}, {V22, 0x0f}, {V22, 0x49}, {V20, 0x04}, {V20, 0x0b}, {V20, 0xff}} {
		if New(Options{Version: test.version}).Begins(test.first) {
			t.Errorf("version %v: Begins(%#x) is true", test.version, test.first)
		}
	}
}
