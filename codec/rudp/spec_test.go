package rudp

import (
	"encoding/binary"
	"os"
	"testing"

	"tidegate/codec/codectest"
)

// tooLong is a capture of a message that the library can send and not receive.
const tooLong = "data-size-4081"

// TestCapturesAreWellFormed: real peers say nothing that our sides take for malformed.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range codectest.Captures(t, os.DirFS("testdata")) {
		if c.Name == tooLong {
			continue
		}
		codectest.Replay(t, c, New(Options{AppID: binary.BigEndian.Uint16(c.Lines[0].Datagram)}))
	}
}

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
