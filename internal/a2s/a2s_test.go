package a2s

import (
	"bytes"
	"testing"
)

// TestVectors compares with datagrams of Valve's documentation.
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		datagram string
		kind     Kind
		given    uint32
		ok       bool
	}{
		{"\xff\xff\xff\xffTSource Engine Query\x00", Info, None, true},
		{"\xff\xff\xff\xffTSource Engine Query\x00\x0a\x08\x5e\xea", Info, 0xea5e080a, true},
		{"\xff\xff\xff\xffU\xff\xff\xff\xff", Players, None, true},
		{"\xff\xff\xff\xffV\x4b\xa1\xd5\x22", Rules, 0x22d5a14b, true},
		{"\xff\xff\xff\xffU", 0, 0, false}, {"\xff\xff\xff\xffU12345", 0, 0, false},
		{"\xff\xff\xff\xffTSource Engine Query", 0, 0, false}, {"\xff\xff\xff\xffgetchallenge", 0, 0, false},
		{"", 0, 0, false},
	} {
		k, given, ok := ParseQuery([]byte(c.datagram))
		if k != c.kind || given != c.given || ok != c.ok {
			t.Errorf("%q: %d, %x, %v", c.datagram, k, given, ok)
		}
		if again := AppendQuery(nil, k, given); ok && string(again) != c.datagram {
			t.Errorf("%q is written as %q", c.datagram, again)
		}
	}
	if c, ok := ParseChallenge([]byte("\xff\xff\xff\xffA\x4b\xa1\xd5\x22")); !ok || c != 0x22d5a14b {
		t.Errorf("challenge %x, %v", c, ok)
	}
	id, number, total, ok := ParsePart([]byte("\xfe\xff\xff\xff\x02\x00\x00\x00\x02\x01\xe0\x04rest"))
	if !ok || id != 2 || number != 1 || total != 2 {
		t.Errorf("part %d of %d of %d, %v", number, total, id, ok)
	}
	if !IsAnswer([]byte("\xff\xff\xff\xffI\x11"), Info) || IsAnswer([]byte("\xff\xff\xff\xffD"), Rules) {
		t.Error("answers are mistaken")
	}
}

// FuzzQuery reads any datagram. A query is written as it was, and a challenge is no longer.
func FuzzQuery(f *testing.F) {
	f.Add([]byte("\xff\xff\xff\xffTSource Engine Query\x00"))
	f.Add([]byte("\xff\xff\xff\xffU\xff\xff\xff\xff"))
	f.Add([]byte("\xfe\xff\xff\xff\x02\x00\x00\x00\x02\x01\xe0\x04rest"))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		if k, given, ok := ParseQuery(datagram); ok {
			again := AppendQuery(nil, k, given)
			if !bytes.Equal(again, datagram) && given != None || len(AppendChallenge(nil, given)) > len(datagram) {
				t.Errorf("%x is written as %x", datagram, again)
			}
		}
		if _, number, total, ok := ParsePart(datagram); ok && number >= total {
			t.Errorf("part %d of %d", number, total)
		}
		ParseChallenge(datagram)
	})
}
