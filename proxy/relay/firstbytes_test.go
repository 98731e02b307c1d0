package relay

import (
	"testing"

	"tidegate/codec"
	"tidegate/codec/rudp"
	"tidegate/internal/policy"
)

// TestFirstBytesOfListeners asserts that a byte counts as opening only if all protocols of the listener use it so. It
// may be in the middle of another protocol's session.
func TestFirstBytesOfListeners(t *testing.T) {
	five := rudp.New(rudp.Options{AppID: 0x0500})
	for _, c := range []struct {
		what          string
		mode          policy.Mode
		protocols     []codec.Protocol
		begins, opens string // of the bytes in the loop below
	}{
		{"RakNet", policy.ModeTerminate, []codec.Protocol{raknet6()}, "\x01\x02\x05\x84", "\x01\x02\x05"},
		{"RakNet, relayed", policy.ModeRelay, []codec.Protocol{raknet6()}, "\x00\x01\x02\x05\x84", "\x01\x02\x05"},
		{"Riptide", policy.ModeTerminate, []codec.Protocol{riptide22()}, "\x00\x01\x02\x05\x84", "\x02"},
		{"RakNet and Riptide", policy.ModeTerminate, []codec.Protocol{raknet6(), riptide22()},
			"\x00\x01\x02\x05\x84", "\x02"},
		{"RakNet and RUDP", policy.ModeTerminate, []codec.Protocol{raknet6(), five}, "\x01\x02\x05\x84", "\x01\x02"},
		{"RakNet and anything", policy.ModeRelay, []codec.Protocol{raknet6(), Any}, "\x00\x01\x02\x05\x84", ""},
	} {
		l := Listener{Protocols: c.protocols, Route: &Route{Mode: c.mode}}
		first := l.FirstBytes()
		begins, opens := "", ""
		for _, b := range []byte("\x00\x01\x02\x05\x84") {
			if first.Has(b) {
				begins += string([]byte{b})
			}
			if first.Opens(b) {
				opens += string([]byte{b})
			}
		}
		if begins != c.begins || opens != c.opens {
			t.Errorf("%s: %q begin, want %q; %q open, want %q", c.what, begins, c.begins, opens, c.opens)
		}
	}
}
