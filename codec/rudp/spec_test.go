package rudp

import (
	"testing"
)

// TestFirstBytes checks that packets of the application begin as FirstBytes says, and others do not.
func TestFirstBytes(t *testing.T) {
	p := New(Options{AppID: 0x1234})
	q := packet{app: 0x1234, kind: kindRequest}
	if first := q.append(nil)[0]; !p.spec.FirstBytes.Has(first) {
		t.Errorf("a packet begins with %#x", first)
	}
	for _, b := range []byte{0x00, 0x34, 0xff} {
		if p.spec.FirstBytes.Has(b) {
			t.Errorf("FirstBytes.Has(%#x) is true", b)
		}
	}
}
