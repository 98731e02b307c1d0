package riptide

import (
	"maps"

	"tidegate/codec"
)

// Verdict is a Transcoder's decision on a message.
type Verdict uint8

// Verdicts. Only Transcoded and Passed come with a payload to send.
const (
	Transcoded Verdict = iota // by its schema
	Passed                    // no schema: unchanged
	Dropped                   // no schema
	Unfit                     // the message does not fit its schema, or the other dialect cannot express it
	verdictCount
)

var verdictNames = [verdictCount]string{"transcoded", "passed", "dropped", "unfit"}

// String returns the verdict's name as in metrics.
func (v Verdict) String() string {
	if v < verdictCount {
		return verdictNames[v]
	}
	return "unknown"
}

// Transcoder translates the messages of one direction from one dialect to the other, each by the schema of its message
// ID. It is immutable and safe for concurrent use.
type Transcoder struct {
	from, to   Version
	schemas    map[uint16]Schema
	undeclared Verdict
}

// NewTranscoder returns a Transcoder with a schema for each declared message ID. It drops or passes other messages:
// those with other IDs, and notify messages, which have no ID.
func NewTranscoder(from, to Version, schemas map[uint16]Schema, dropUndeclared bool) *Transcoder {
	t := &Transcoder{from: from, to: to, schemas: maps.Clone(schemas), undeclared: Passed}
	if dropUndeclared {
		t.undeclared = Dropped
	}
	return t
}

// Transcode returns the bytes to send in place of m's payload. They are appended to dst and returned without dst's
// earlier content. After Passed they are m's own payload. Transcode does not allocate if dst has the room that
// Schema.Transcode needs.
func (t *Transcoder) Transcode(dst []byte, m *codec.Message) (payload []byte, pad uint8, v Verdict) {
	schema, declared := t.schemas[m.ID]
	switch {
	case m.HasID && declared:
		out, pad, err := schema.Transcode(dst, t.from, t.to, m.Payload, m.Pad)
		if err != nil {
			return nil, 0, Unfit
		}
		return out[len(dst):], pad, Transcoded
	case t.undeclared == Dropped:
		return nil, 0, Dropped
	default:
		return m.Payload, m.Pad, Passed
	}
}
