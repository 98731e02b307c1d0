package rudp

import (
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"tidegate/codec"
)

// TestDescribe uses datagrams from captures of RUDP 0.12.0, except for the last one.
func TestDescribe(t *testing.T) {
	wrapped := packet{
		app: 7, seq: 1, acks: acks{last: 1, bits: 1<<31 | 1<<30 | 1<<28 | 1}, kind: kindData, data: []byte("hello"),
	}
	for _, c := range []struct {
		hex, text string
		content   []string
	}{
		{
			"000100000000000000000000ba5b19af",
			"connection request #0, application 1, acknowledges #0, checksum good", nil,
		}, {
			"000100000000000000000001140023411d20",
			"connection accept #0, application 1, acknowledges #0, checksum good",
			[]string{"20 packets a second, version 0"},
		}, {
			"000100020003f00000000004b7baf6b4",
			"keep alive #2, application 1, acknowledges #3, #2-#65535, checksum good", nil,
		}, {
			hex.EncodeToString(wrapped.append(nil)),
			"data #1, application 7, acknowledges #1, #0-#65535, #65533, #65505, checksum good",
			[]string{"5 bytes: 68656c6c6f"},
		},
	} {
		d, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		text, content, err := describe(true, d)
		if err != nil || text != c.text || !slices.Equal(content, c.content) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", c.hex, text, content, err, c.text, c.content)
		}
		d[len(d)-1] ^= 1
		if _, _, err := describe(true, d); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%x with a wrong checksum: %v", d, err)
		}
	}
}

// TestDescribeTooLarge: the real library sends 4097 bytes when its game asks for 4081.
func TestDescribeTooLarge(t *testing.T) {
	text, _, err := describe(true, make([]byte, codec.MaxDatagram+1))
	if want := "4097 bytes, more than any peer receives: lost"; text != want || err != nil {
		t.Errorf("%q, %v; want %q", text, err, want)
	}
}

func FuzzDescribe(f *testing.F) {
	for k := range kindCount {
		p := packet{seq: 65535, acks: acks{last: 3, bits: 0xe0000000}, kind: k, data: []byte{20, 0}}
		f.Add(p.append(nil))
	}
	f.Fuzz(func(t *testing.T, d []byte) {
		text, _, err := describe(true, d)
		if (err == nil) != (text != "") || err != nil && !errors.Is(err, codec.ErrMalformed) {
			t.Fatalf("%x: %q, %v", d, text, err)
		}
	})
}
