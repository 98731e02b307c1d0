package riptide

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"testing"
)

// fuzzedTypes are the types from which data makes schemas.
var fuzzedTypes = strings.Fields("byte bool int ulong double string vector3 quaternion varulong varlong bits:1 " +
	"bits:13 bits:64 byte[] bool[] " +
	"short[] string[] vector2[] varulong[] bits:5[] bool[11] sbyte[3] string[2] varlong[2] " +
	"bits:33[3] bool[32767] quaternion[32767] string[32767]")

// FuzzTranscode reads any data by any schema. Nothing may panic or grow beyond its bound. A transcoded message keeps
// its meaning, and is the same when transcoded back.
func FuzzTranscode(f *testing.F) {
	f.Add([]byte{0, 2, 5}, []byte{1, 2, 0, 0, 0, 1, 'x'}, uint8(0))
	f.Add([]byte{14, 16, 20}, []byte{0x82, 0xb7, 0x6d, 0x03, 1, 'x', 0, 7}, uint8(4))
	f.Add([]byte{8, 10, 17, 24}, []byte{0xff, 0x01, 3, 2, 0x80, 0x80, 0x80, 1, 9, 9, 9, 9, 9, 9}, uint8(7))
	f.Fuzz(func(t *testing.T, picks, payload []byte, pad uint8) {
		if len(picks) > 50 || len(payload) > maxFuzzed {
			return
		}
		names := make([]string, len(picks))
		for i, pick := range picks {
			names[i] = fuzzedTypes[int(pick)%len(fuzzedTypes)]
		}
		s := mustSchema(t, names...)
		for _, from := range []Version{V20, V22} {
			same, samePad, errSame := s.Transcode(nil, from, from, payload, pad)
			for _, to := range []Version{V20, V22} {
				out, outPad, err := s.Transcode(nil, from, to, payload, pad)
				if err != nil {
					continue
				}
				if len(out) > len(payload)+len(s)+1 {
					t.Errorf("%v: %x of %d bytes became %d", names, payload, len(payload), len(out))
				}
				back, backPad, err := s.Transcode(nil, to, from, out, outPad)
				if err != nil || errSame != nil || !bytes.Equal(back, same) || backPad != samePad {
					t.Errorf("%v: %x pad %d from %d to %d: %x pad %d, back %x pad %d, %v; want %x pad %d, %v", names,
						payload, pad, from, to, out, outPad, back, backPad, err, same, samePad, errSame)
				}
			}
		}
	})
}

// FuzzValues writes values made from data and reads them again.
func FuzzValues(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12"), true)
	f.Add([]byte("\x10\x02a\x40\x0bbcd\x02\x0f\x61\xff\x0c\xff\xff\xff\xff\x02\x30\x13\x10\x11"), false)
	f.Fuzz(func(t *testing.T, data []byte, old bool) {
		if len(data) > maxFuzzed {
			return
		}
		v := V22
		if old {
			v = V20
		}
		parts := inventParts(data, v)
		w := NewWriter(v, nil)
		for _, p := range parts {
			m := methodsOf(t, p.name)
			m.write(&w, m.parse(t, p.text))
		}
		payload, pad, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(v, payload, pad)
		for _, p := range parts {
			m := methodsOf(t, p.name)
			want := m.parse(t, p.text)
			if got := m.read(&r, len(strings.Fields(p.text))); got != want {
				t.Errorf("%s: wrote %v, read %v", p.name, want, got)
			}
		}
		if err := r.Finish(); err != nil {
			t.Error(err)
		}
	})
}

// inventParts makes values from data: a byte with the number of bytes for this value, its type, and those bytes.
func inventParts(data []byte, v Version) []part {
	var parts []part
	for len(data) >= 2 {
		n, name := min(2+int(data[0]>>4), len(data)), allMethods[int(data[1])%len(allMethods)].name
		if !strings.HasPrefix(name, "var") && !strings.HasPrefix(name, "bits") || v == V22 {
			parts = append(parts, part{name, inventText(name, data[2:n])})
		}
		data = data[n:]
	}
	return parts
}

func inventText(name string, data []byte) string {
	switch name {
	case "string":
		return string(data)
	case "bool":
		return strconv.FormatBool(len(data) > 1)
	case "bools":
		var texts []string
		for _, b := range data {
			texts = append(texts, strconv.FormatBool(b&1 > 0))
		}
		return strings.Join(texts, " ")
	default:
		var number [8]byte
		copy(number[:], data)
		return strconv.FormatUint(binary.LittleEndian.Uint64(number[:]), 10)
	}
}
