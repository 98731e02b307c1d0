package rudp

import (
	"testing"

	"tidegate/codec"
)

// TestBegins checks that packets of the application begin as Begins says, and others do not.
func TestBegins(t *testing.T) {
	var p codec.Beginner = New(Options{AppID: 0x1234})
	q := packet{app: 0x1234, kind: kindRequest}
	if first := q.append(nil)[0]; !p.Begins(first) {
		t.Errorf("a packet begins with %#x", first)
	}
	for _, b := range []byte{0x00, 0x34, 0xff} {
		if p.Begins(b) {
			t.Errorf("Begins(%#x) is true", b)
		}
	}
}
