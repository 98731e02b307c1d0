package raknet

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// TestCapsule uses the capsules of the captures in testdata, with shortened payloads.
func TestCapsule(t *testing.T) {
	for _, c := range []struct {
		name    string
		hex     string
		want    capsule
		written string // if it differs from hex
	}{
		{"unreliable", "000010aabb", capsule{mode: codec.Unreliable}, ""},
		{"unreliable sequenced", "200010020000" + "09000003aabb",
			capsule{mode: codec.UnreliableSequenced, sequence: 2, order: 9, channel: 3}, ""},
		{"reliable", "400010020000aabb", capsule{mode: codec.Reliable, reliable: 2}, ""},
		{"reliable ordered", "600010020000" + "0100001faabb",
			capsule{mode: codec.ReliableOrdered, reliable: 2, order: 1, channel: 31}, ""},
		{"reliable sequenced", "800010" + "030000" + "010000" + "ffffff03aabb",
			capsule{mode: codec.ReliableSequenced, reliable: 3, sequence: 1, order: 0xffffff, channel: 3}, ""},
		{"asking for a receipt", "a00010aabb", capsule{mode: codec.Unreliable}, "000010aabb"},
		{"reliable and asking", "c00010020000aabb", capsule{mode: codec.Reliable, reliable: 2}, "400010020000aabb"},
		{"ordered and asking", "e00010020000" + "0100001faabb",
			capsule{mode: codec.ReliableOrdered, reliable: 2, order: 1, channel: 31}, "600010020000" + "0100001faabb"},
		{"split", "700010020000" + "01000000" + "00000002" + "0007" + "00000001" + "aabb",
			capsule{mode: codec.ReliableOrdered, reliable: 2, order: 1, split: true, splitCount: 2, splitID: 7,
				splitIndex: 1}, ""},
		{"of 9 bits", "400009000000aabb", capsule{mode: codec.Reliable, pad: 7}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := codectest.Unhex(t, c.hex)
			c.want.payload = []byte{0xaa, 0xbb}
			var got capsule
			rest, err := got.parse(append(wire[:len(wire):len(wire)], 1, 2, 3))
			if err != nil || !bytes.Equal(rest, []byte{1, 2, 3}) || !reflect.DeepEqual(got, c.want) {
				t.Fatalf("parse = %+v, %x, %v, want %+v", got, rest, err, c.want)
			}
			if c.written != "" {
				wire = codectest.Unhex(t, c.written)
			}
			if b := got.append(nil); !bytes.Equal(b, wire) || got.size() != len(wire) {
				t.Errorf("append = %x (size %d), want %x", b, got.size(), wire)
			}
			room := make([]byte, 0, 2*len(wire))
			if n := allocs.PerRun(10, func() {
				_, _ = got.parse(wire)
				_ = got.append(room)
			}); n != 0 {
				t.Errorf("parse and append allocate %v times", n)
			}
			for n := range wire {
				if _, err := got.parse(wire[:n]); !errors.Is(err, codec.ErrMalformed) {
					t.Errorf("parse of %d of %d bytes: %v, want ErrMalformed", n, len(wire), err)
				}
			}
		})
	}
}

func TestCapsuleRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"no bits":              "600000020000" + "01000000aabb",
		"more bits than bytes": "000011aabb",
		"channel 32":           "600010020000" + "01000020aabb",
		"no parts":             "500010020000" + "00000000" + "0007" + "00000000" + "aabb",
		"part beyond count":    "500010020000" + "00000002" + "0007" + "00000002" + "aabb",
	} {
		if _, err := new(capsule).parse(codectest.Unhex(t, s)); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

// TestCapsuleKeepsItsPayloadApart: an append to a payload must not overwrite the next capsule.
func TestCapsuleKeepsItsPayloadApart(t *testing.T) {
	var c capsule
	rest, err := c.parse(codectest.Unhex(t, "000010aabb"+"000008cc"))
	if err != nil {
		t.Fatal(err)
	}
	_ = append(c.payload, 0xff)
	if rest[0] != 0 {
		t.Error("the payload reaches into the next capsule")
	}
}

func TestCapsuleSizes(t *testing.T) {
	longest := capsule{mode: codec.ReliableSequenced, split: true}
	if longest.size() != maxCapsuleHeaderSize {
		t.Errorf("longest header has %d bytes, want %d", longest.size(), maxCapsuleHeaderSize)
	}
	full := capsule{mode: codec.Unreliable, payload: bytes.Repeat([]byte{1}, 8191)}
	var got capsule
	if _, err := got.parse(full.append(nil)); err != nil || len(got.payload) != 8191 {
		t.Errorf("capsule of %d bytes: %v", len(full.payload), err)
	}
}

func TestIsPadding(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "ff": true, "ffffff": true, "00000000": true, strings.Repeat("00", 60): true,
		"000008cc": false, "0000000001": false,
	} {
		if got := isPadding(codectest.Unhex(t, s)); got != want {
			t.Errorf("isPadding(%s) = %v, want %v", s, got, want)
		}
	}
}
