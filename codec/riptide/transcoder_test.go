package riptide

import (
	"bytes"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

func TestTranscoder(t *testing.T) {
	schemas := map[uint16]Schema{0: mustSchema(t, "byte"), 7: mustSchema(t, "bool", "short"), 9: {}}
	pass, drop := NewTranscoder(V22, V20, schemas, false), NewTranscoder(V22, V20, schemas, true)
	delete(schemas, 7) // the Transcoder has a copy
	for _, c := range []struct {
		what       string
		transcoder *Transcoder
		message    codec.Message
		payload    string
		pad        uint8
		want       Verdict
	}{
		{"declared", pass, codec.Message{HasID: true, ID: 7, Payload: []byte{5, 0}}, "010200", 0, Transcoded},
		{"declared, odd bits", drop, codec.Message{HasID: true, ID: 7, Payload: []byte{5, 0, 1}, Pad: 7}, "010280", 0,
			Transcoded},
		{"declared without values", drop, codec.Message{HasID: true, ID: 9}, "", 0, Transcoded},
		{"too short", pass, codec.Message{HasID: true, ID: 7, Payload: []byte{5}}, "", 0, Unfit},
		{"too long", drop, codec.Message{HasID: true, ID: 7, Payload: []byte{5, 0, 0, 0}}, "", 0, Unfit},
		{"undeclared", pass, codec.Message{HasID: true, ID: 8, Payload: []byte{5}, Pad: 4}, "05", 4, Passed},
		{"undeclared", drop, codec.Message{HasID: true, ID: 8, Payload: []byte{5}}, "", 0, Dropped},
		{"notify", pass, codec.Message{Mode: codec.Notify, Payload: []byte{5}, Pad: 1}, "05", 1, Passed},
		{"notify", drop, codec.Message{Mode: codec.Notify, Payload: []byte{5}}, "", 0, Dropped},
	} {
		payload, pad, verdict := c.transcoder.Transcode([]byte("before"), &c.message)
		if !bytes.Equal(payload, codectest.Unhex(t, c.payload)) || pad != c.pad || verdict != c.want {
			t.Errorf("%s: %x pad %d, %v; want %s pad %d, %v", c.what, payload, pad, verdict, c.payload, c.pad, c.want)
		}
	}
}

func TestTranscoderAllocations(t *testing.T) {
	s, payload, pad := gameMessage(t)
	transcoder := NewTranscoder(V22, V20, map[uint16]Schema{3: s}, false)
	messages := []codec.Message{
		{HasID: true, ID: 3, Payload: payload, Pad: pad},
		{HasID: true, ID: 3, Payload: payload[1:]},
		{HasID: true, ID: 4, Payload: payload},
	}
	dst := make([]byte, 0, codec.MaxDatagram)
	seen := [verdictCount]int{}
	allocations := allocs.PerRun(100, func() {
		for i := range messages {
			_, _, verdict := transcoder.Transcode(dst, &messages[i])
			seen[verdict]++
		}
	})
	if allocations != 0 || seen[Transcoded] == 0 || seen[Unfit] == 0 || seen[Passed] == 0 {
		t.Errorf("%v allocations, verdicts %v", allocations, seen)
	}
}

func TestVerdictNames(t *testing.T) {
	for v, want := range map[Verdict]string{Transcoded: "transcoded", Unfit: "unfit", verdictCount: "unknown"} {
		if v.String() != want {
			t.Errorf("%d: %s, want %s", v, v, want)
		}
	}
}
