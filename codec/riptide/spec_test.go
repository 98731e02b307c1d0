package riptide

import (
	"testing"
)

// TestFirstBytes checks that no datagram of a real client begins as none does, and what else does not.
func TestFirstBytes(t *testing.T) {
	for _, c := range loadCaptures(t) {
		p := New(Options{Version: c.dialect()})
		for _, l := range c.Lines {
			if l.From != "client" {
				continue
			}
			first := l.Datagram[0]
			if !p.spec.FirstBytes.Has(first) {
				t.Errorf("%s/%s: a client's datagram begins with %#x", c.version, c.scenario, first)
			}
			if isConnect := p.dialect.kindOf([]byte{first}) == kindConnect; p.spec.Openings.Has(first) != isConnect {
				t.Errorf("%s/%s: Openings.Has(%#x) is not %t", c.version, c.scenario, first, isConnect)
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
