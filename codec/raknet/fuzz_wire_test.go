package raknet

import (
	"bytes"
	"testing"

	"tidegate/codec/codectest"
)

// FuzzWireTypes parses data as every wire type that is a whole message. None panics. A type that was parsed and
// written must parse as the same again.
func FuzzWireTypes(f *testing.F) {
	for _, seed := range []string{
		"01000000000000000a00ffff00fefefefefdfdfdfd12345678000660c47c25474b",
		"0500ffff00fefefefefdfdfdfd12345678060000",
		"0600ffff00fefefefefdfdfdfd123456785656a83100b856b001d6528aaa05d4",
		"0700ffff00fefefefefdfdfdfd12345678d6528aaa000480fffffea49505d4000660c486a67405",
		"0800ffff00fefefefefdfdfdfd12345678000660c47c8fe2630480fffffeaee205d400",
		"1200ffff00fefefefefdfdfdfd12345678000660c48310c3ff",
		"190b00ffff00fefefefefdfdfdfd12345678000660c483465d64",
		"09000660c4837c12e600000000000000150077726f6e67",
		"10" + "0480fffffeece20000" + unassigned(2) + "000000000000001500000000000002d3",
		"13" + "0480fffffea48b" + unassigned(2) + "00000000000002d3000000000000001f",
		"00000000000000001f",
		"03000000000000001f00000000000002e7",
		"0a01",
		"0b" + "0480fffffec837" + "000660c48509a6ae",
		"16" + "000660c48509a6ae" + "0480fffffec837",
	} {
		f.Add(codectest.Unhex(f, seed))
	}
	blanks := []wireType{
		&unconnectedPing{}, &openConnectionRequest1{}, &openConnectionReply1{}, &openConnectionReply2{}, &refusal{},
		&incompatible{}, &connectionRequest{}, &connectionRequestAccepted{}, &newIncomingConnection{}, &connectedPing{},
		&connectedPong{}, request2{nil, false}, request2{nil, true}, &requiresPublicKey{}, &requiresSecurity{},
		&connectionLost{},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, kind := range blanks {
			first, second := blank(kind), blank(kind)
			if first.parse(b) != nil {
				continue
			}
			written := first.append(nil)
			if err := second.parse(written); err != nil {
				t.Fatalf("%T: its output does not read back: %v", kind, err)
			}
			if again := second.append(nil); !bytes.Equal(again, written) {
				t.Fatalf("%T: written %x, then %x", kind, written, again)
			}
		}
	})
}

// FuzzPong does the same for the pong, which has two forms.
func FuzzPong(f *testing.F) {
	f.Add(codectest.Unhex(f, "1c000000000000000a000660c47c1a909700ffff00fefefefefdfdfdfd12345678000141"))
	f.Fuzz(func(t *testing.T, b []byte) {
		pong, err := ParsePong(b)
		if err != nil {
			return
		}
		sized := len(b) != len(pong.append(nil, false))
		if again := pong.append(nil, sized); !bytes.Equal(again, b) {
			t.Fatalf("written %x, read %x", again, b)
		}
	})
}

// FuzzCapsules reads capsule after capsule. Each is written as it was read, except for reliabilities 5 to 7 and the
// unused low bits of the first byte. A capsule is never larger than its datagram.
func FuzzCapsules(f *testing.F) {
	part := "700010020000" + "01000000" + "00000002" + "0007" + "00000001" + "aabb"
	f.Add(codectest.Unhex(f, "000010aabb"+"600010020000"+"0100001faabb"+part+"0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for !isPadding(b) {
			var c capsule
			rest, err := c.parse(b)
			if err != nil {
				return
			}
			written := c.append(nil)
			if len(written) != len(b)-len(rest) || !bytes.Equal(written[1:], b[1:len(written)]) {
				t.Fatalf("written %x, read %x", written, b[:len(b)-len(rest)])
			}
			b = rest
		}
	})
}

// FuzzAcks reads and rewrites a list of acknowledgements.
func FuzzAcks(f *testing.F) {
	f.Add(codectest.Unhex(f, "000301010000000300000500000100000f"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r, again ackReader
		if r.parse(body) != nil {
			return
		}
		all := readAll(r)
		w := beginAcks(nil, ackDatagram, ackHeaderSize+len(all)*rangeRecordSize)
		for _, a := range all {
			if a.wraps() || !w.add(a) {
				t.Fatalf("range %v does not fit", a)
			}
		}
		if err := again.parse(w.end()[1:]); err != nil {
			t.Fatal(err)
		}
		for i, got := range readAll(again) {
			if got != all[i] {
				t.Fatalf("range %d: wrote %v, read %v", i, all[i], got)
			}
		}
	})
}
