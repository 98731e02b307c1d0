package nethernet

import (
	"errors"
	"slices"
	"testing"

	"tidegate/codec"
)

// TestDescribe says what no recorded datagram of the libraries has: checks that prove nothing, and damaged records.
func TestDescribe(t *testing.T) {
	hello := append([]byte{22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2}, 1, 0)
	alert := append([]byte{21, 0xfe, 0xfd}, make([]byte, recordHeader-3)...)
	wrong := appendHeader(nil, Request, TransactionID{})
	unknown := slices.Concat(alert, make([]byte, recordHeader))
	describe := Describe() // the stages are those of one conversation
	for _, c := range []struct {
		what     string
		datagram []byte
		says     string
	}{
		{"no fingerprint", wrong, `check "", fingerprint missing or wrong`},
		{"DTLS 1.3 without a beginning", []byte{40, 1, 2}, ""},
		{"two records", append(hello, hello...), "DTLS, which begins"},
		{"DTLS 1.3", []byte{40, 1, 2}, "DTLS, whose handshake is done"},
		{"cut short", hello[:len(hello)-1], ""},
		{"no record", []byte{19}, ""},
		{"a record of an unknown kind behind another", unknown, ""},
		{"nothing", nil, ""},
		{"a message inside", AppendInside(nil, InsideMessage, make([]byte, 5000)), "message inside, 5000 bytes"},
		{"a join", AppendInside(nil, InsideJoin, []byte("came")), "join over HTTP, 4 bytes"},
	} {
		text, content, err := describe(false, c.datagram)
		if text != c.says || errors.Is(err, codec.ErrMalformed) != (c.says == "") {
			t.Errorf("%s: %q, %q, %v, want %q", c.what, text, content, err, c.says)
		}
	}
}

// FuzzDescribe explains any datagrams of a conversation. Its output is in proportion.
func FuzzDescribe(f *testing.F) {
	for _, stack := range stacks {
		for _, d := range recording(f, stack).Datagrams {
			f.Add(d.FromServer, unhex(f, d.Hex), unhex(f, d.Hex))
		}
	}
	f.Add(true, AppendInside(nil, InsideJoin, []byte("came")), AppendInside(nil, InsideMessage, make([]byte, 40)))
	f.Add(true, []byte{21, 0xfe, 0xfd, 12: 0}, []byte{20, 0xfe, 0xfd, 25: 0})
	f.Fuzz(func(t *testing.T, fromServer bool, first, second []byte) {
		describe := Describe()
		for _, d := range [][]byte{first, second} {
			text, content, err := describe(fromServer, d)
			isOdd := err != nil && !errors.Is(err, codec.ErrMalformed)
			if isOdd || len(text) > 300+4*len(d) || len(content) > len(d)/recordHeader {
				t.Errorf("%q, %q, %v", text, content, err)
			}
		}
	})
}
