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

// TestWords reads the queries of FiveM's and Quake's clients, and gives each answer its challenge.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		datagram string
		kind     Kind
		word     string
		ok       bool
	}{
		{"\xff\xff\xff\xffgetinfo xxx", GetInfo, "xxx", true}, {"\xff\xff\xff\xffgetinfo", GetInfo, "", true},
		{"\xff\xff\xff\xffgetstatus 12 \n\x00", GetStatus, "12", true},
		{"\xff\xff\xff\xffgetinfo a\\b", 0, "", false}, {"\xff\xff\xff\xffgetinfo a\nb", 0, "", false},
		{"\xff\xff\xff\xffgetinfos", 0, "", false}, {"\xff\xff\xff\xffrcon x y", 0, "", false}, {"getinfo", 0, "", false},
		{"\xff\xff\xff\xffgetinfo " + string(bytes.Repeat([]byte("a"), 65)), 0, "", false},
	} {
		if k, word, ok := ParseWord([]byte(c.datagram)); ok != c.ok || ok && (k != c.kind || string(word) != c.word) {
			t.Errorf("%q: %d, %q, %v", c.datagram, k, word, ok)
		}
		if _, _, ok := ParseQuery([]byte(c.datagram)); ok {
			t.Errorf("%q is a query of Source's", c.datagram)
		}
	}
	for _, c := range [][2]string{
		{"head\n\\a\\1\\challenge\\xxx\\b\\2\n1 2 \"p\"", "head\n\\a\\1\\challenge\\new\\b\\2\n1 2 \"p\""},
		{"head\n\\challenge\\xxx", "head\n\\challenge\\new"}, {"head\n\\challenge\\\\b\\2", "head\n\\challenge\\new\\b\\2"},
		{"head\n\\a\\1\nplayer\\challenge\\xxx", "head\n\\a\\1\nplayer\\challenge\\xxx"}, {"head", "head"}, {"", ""},
	} {
		if got := AppendAnswer(nil, []byte(c[0]), []byte("new")); string(got) != c[1] {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
	if !IsAnswer([]byte("\xff\xff\xff\xffinfoResponse\n\\a"), GetInfo) || string(AppendQuery(nil, GetStatus, None)) !=
		"\xff\xff\xff\xffgetstatus xxx" {
		t.Error("queries or answers are mistaken")
	}
}

// FuzzQuery reads any datagram. A query is written as it was, and a challenge is no longer.
func FuzzQuery(f *testing.F) {
	f.Add([]byte("\xff\xff\xff\xffTSource Engine Query\x00"))
	f.Add([]byte("\xff\xff\xff\xffU\xff\xff\xff\xff"))
	f.Add([]byte("\xfe\xff\xff\xff\x02\x00\x00\x00\x02\x01\xe0\x04rest"))
	f.Add([]byte("\xff\xff\xff\xffgetinfo xxx"))
	f.Add([]byte("\xff\xff\xff\xffinfoResponse\n\\challenge\\xxx\\clients\\1"))
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
		if _, word, ok := ParseWord(datagram); ok && (len(word) > mostChallenge || bytes.ContainsAny(word, "\\\n")) {
			t.Errorf("%q has the challenge %q", datagram, word)
		}
		if answer := AppendAnswer(nil, datagram, []byte("word")); len(answer) > len(datagram)+4 {
			t.Errorf("%q becomes %q", datagram, answer)
		}
	})
}
