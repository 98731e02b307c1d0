package rudp

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"tidegate/codec/codectest"
)

func TestOptions(t *testing.T) {
	library := Options{
		Rate: 100, MaxPayload: 4080, MaxJoined: 1384, MaxQueued: 1 << 20, DialTimeout: 3 * time.Second,
	}
	if got := (Options{}).withDefaults(); got != library {
		t.Errorf("defaults %+v, want %+v", got, library)
	}
	own := Options{AppID: 7, Rate: 1, MaxPayload: 10, MaxJoined: 20, MaxQueued: 30, DialTimeout: 1, base: 9}
	if got := own.withDefaults(); got != own {
		t.Errorf("%+v became %+v", own, got)
	}
	// A peer receives at most 4096 bytes.
	large := Options{MaxPayload: 5000, MaxJoined: 5000}.withDefaults()
	if large.MaxPayload != 4080 || large.MaxJoined != 4080 {
		t.Errorf("packets of %d and %d bytes", large.MaxPayload, large.MaxJoined)
	}
}

// tooLong names a capture of a message that the library can send but not receive.
const tooLong = "data-size-4081"

// TestCapturesAreWellFormed: our sides take no datagram of a real peer for malformed.
func TestCapturesAreWellFormed(t *testing.T) {
	for _, c := range codectest.Captures(t, os.DirFS("testdata")) {
		if c.Name == tooLong {
			continue
		}
		codectest.Replay(t, c, New(Options{AppID: binary.BigEndian.Uint16(c.Lines[0].Datagram)}))
	}
}

// TestFirstBytes checks FirstBytes against packets of the application.
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
