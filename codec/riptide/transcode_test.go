package riptide

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// schemaOf returns the schema of a golden message. Schemas have no arrays of a game's own types.
func schemaOf(g *golden) (names []string, ok bool) {
	name, unprefixed := strings.CutSuffix(g.Type, "[] (no length)")
	switch {
	case unprefixed:
		return []string{fmt.Sprintf("%s[%d]", name, len(g.Value.([]any)))}, true
	case strings.HasPrefix(name, "sequence "):
		return strings.Split(strings.TrimPrefix(name, "sequence "), ","), true
	case name == "IMessageSerializable[]":
		return nil, false
	case strings.HasPrefix(name, "IMessageSerializable"):
		return []string{"int", "string"}, true
	case strings.HasPrefix(name, "bits("):
		return []string{strings.NewReplacer("(", ":", ")", "").Replace(name)}, true
	default:
		return []string{name}, true
	}
}

// TestTranscodeGolden: the two real libraries' messages of the same value transcode into each other, byte for byte,
// and into themselves.
func TestTranscodeGolden(t *testing.T) {
	twins := make(map[string]golden)
	key := func(g *golden) string { return fmt.Sprint(g.Type, g.Value, g.Mode) }
	for _, g := range loadGolden(t, "testdata/values-riptide-2.0.0.json") {
		twins[key(&g)] = g
	}
	compared := 0
	for _, g := range loadGolden(t, "testdata/values-riptide-2.2.1.json") {
		names, ok := schemaOf(&g)
		if !ok {
			continue
		}
		s := mustSchema(t, names...)
		payload, pad := g.payload(t, V22)
		checkTranscode(t, s, V22, V22, payload, pad, g.datagram(t, V22, payload, pad), &g)
		if twin, ok := twins[key(&g)]; ok {
			compared++
			old, _ := twin.payload(t, V20)
			checkTranscode(t, s, V20, V20, old, 0, codectest.Unhex(t, twin.Hex), &twin)
			checkTranscode(t, s, V20, V22, old, 0, codectest.Unhex(t, g.Hex), &g)
			checkTranscode(t, s, V22, V20, payload, pad, codectest.Unhex(t, twin.Hex), &twin)
		}
	}
	if compared != 324 {
		t.Errorf("%d pairs", compared)
	}
}

func checkTranscode(t *testing.T, s Schema, from, to Version, payload []byte, pad uint8, want []byte, g *golden) {
	t.Helper()
	out, outPad, err := s.Transcode(nil, from, to, payload, pad)
	if err != nil {
		t.Errorf("%s %s: %v", g.Type, g.Mode, err)
		return
	}
	if got := g.datagram(t, to, out, outPad); !bytes.Equal(got, want) {
		t.Errorf("%s %s: %x, want %x", g.Type, g.Mode, got, want)
	}
}

func TestTranscode(t *testing.T) {
	for _, c := range []struct {
		schema   string
		from, to Version
		payload  string
		pad      uint8
		want     string
		wantPad  uint8
	}{
		{"", V22, V20, "", 0, "", 0},
		{"", V20, V22, "", 0, "", 0},
		{"bool", V22, V20, "", 0, "00", 0}, // false is all padding
		{"bool bool bool", V22, V20, "05", 4, "010001", 0},
		{"bool bool bool", V20, V22, "010001", 0, "05", 5},
		{"bool bool", V20, V22, "0203", 0, "00", 6}, // only 1 is true
		{"bool[3] byte", V20, V22, "fd41", 0, "0d02", 5},
		{"bool[3] byte", V22, V20, "0d02", 5, "0541", 0},
		{"bool[] bool[9]", V22, V20, "02fe07", 4, "0202ff01", 0},
		{"string[2] short", V22, V20, "0161000100", 0, "0161000100", 0},
		{"byte[]", V20, V22, "800241ff", 0, "0241ff", 0}, // a length in its longer form
		{"varulong", V22, V22, "8100", 0, "01", 0},
		{"bits:3 bits:9", V22, V22, "fd0f", 4, "fd0f", 4},
		{"string", V20, V22, "02fffe", 0, "02fffe", 0}, // invalid UTF-8
		{"vector2 vector3[1] quaternion", V20, V22, strings.Repeat("0000c0ff", 9), 0, strings.Repeat("0000c0ff", 9), 0},
	} {
		s := mustSchema(t, strings.Fields(c.schema)...)
		out, pad, err := s.Transcode([]byte("before"), c.from, c.to, codectest.Unhex(t, c.payload), c.pad)
		want := append([]byte("before"), codectest.Unhex(t, c.want)...)
		if !bytes.Equal(out, want) || pad != c.wantPad || err != nil {
			t.Errorf("%s of %s: %x pad %d, %v; want %x pad %d", c.schema, c.payload, out, pad, err, want, c.wantPad)
		}
	}
}

func TestTranscodeRefuses(t *testing.T) {
	long := strings.Repeat("ff", 4096)
	for _, c := range []struct {
		schema   string
		from, to Version
		payload  string
		want     error
	}{
		{"int", V20, V22, "010203", ErrShort},
		{"int", V22, V20, "010203", ErrShort},
		{"int", V20, V22, "0102030405", ErrTrailing},
		{"byte", V22, V20, "0102", ErrTrailing},
		{"bool", V20, V22, "", ErrShort},
		{"int[]", V20, V22, "0201000000", ErrShort},
		{"int[]", V22, V20, "ffffffff0f", ErrShort},
		{"string", V22, V20, "ff01", ErrShort},
		{"string[]", V20, V22, "02016105", ErrShort},
		{"string[32767]", V22, V20, "00", ErrShort},
		{"bool[32767]", V22, V20, "00", ErrShort},
		{"varlong", V22, V22, "80808080808080808080", ErrVarint},
		{"varlong", V22, V20, "01", ErrDialect},
		{"varulong", V20, V22, "01", ErrDialect},
		{"bits:8", V22, V20, "07", ErrDialect},
		{"bits:8", V20, V22, "07", ErrDialect},
		{"bool[]", V22, V20, "808002" + long, ErrLength},
		{"byte varlong", V22, V20, "0101", ErrDialect},
	} {
		s := mustSchema(t, strings.Fields(c.schema)...)
		dst := []byte("before")
		out, pad, err := s.Transcode(dst, c.from, c.to, codectest.Unhex(t, c.payload), 0)
		if !errors.Is(err, c.want) || string(out) != "before" || pad != 0 {
			t.Errorf("%s of %.20s: %.20q pad %d, %v; want %v", c.schema, c.payload, out, pad, err, c.want)
		}
	}
}

// gameMessage returns a schema with every type of both dialects, and a payload for it in Riptide 2.1+.
func gameMessage(t testing.TB) (s Schema, payload []byte, pad uint8) {
	t.Helper()
	s = mustSchema(t, "byte", "sbyte", "bool", "short", "ushort", "int", "uint", "long", "ulong", "float", "double",
		"string", "vector2", "vector3", "quaternion", "byte[]", "bool[]")
	w := NewWriter(V20, nil)
	everyValue(&w, V20)
	old, _, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if payload, pad, err = s.Transcode(nil, V20, V22, old, 0); err != nil {
		t.Fatal(err)
	}
	return s, payload, pad
}

func TestTranscodeAllocations(t *testing.T) {
	s, payload, pad := gameMessage(t)
	dst := make([]byte, 0, len(payload)+len(s)+8)
	allocations := allocs.PerRun(100, func() {
		if _, _, err := s.Transcode(dst, V22, V20, payload, pad); err != nil {
			t.Error(err)
		}
		if _, _, err := s.Transcode(dst, V22, V20, payload[1:], pad); err == nil {
			t.Error("no error")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkTranscode(b *testing.B) {
	s, payload, pad := gameMessage(b)
	dst := make([]byte, 0, codec.MaxDatagram)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, _, err := s.Transcode(dst, V22, V20, payload, pad); err != nil {
			b.Fatal(err)
		}
	}
}
