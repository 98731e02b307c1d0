package riptide

import (
	"maps"

	"tidegate/codec"
)

// Verdict is what a Transcoder makes of a message.
type Verdict uint8

// Verdicts. Only after Transcoded and Passed is there a payload to send.
const (
	Transcoded Verdict = iota // its schema applied
	Passed                    // without a schema: as it is
	Dropped                   // without a schema
	Unfit                     // it does not fit its schema, or the other dialect cannot say it
	verdictCount
)

var verdictNames = [verdictCount]string{"transcoded", "passed", "dropped", "unfit"}

// String is the verdict's name as in metrics.
func (v Verdict) String() string {
	if v < verdictCount {
		return verdictNames[v]
	}
	return "unknown"
}

// Transcoder turns the messages of one direction from one dialect to the other, each by the schema of its message ID.
// It is immutable and safe for concurrent use.
type Transcoder struct {
	from, to   Version
	schemas    map[uint16]Schema
	undeclared Verdict
}

// NewTranscoder returns a Transcoder with a schema for each declared message ID. Messages of other IDs, and notify
// messages, which have none, are dropped or passed as they are.
func NewTranscoder(from, to Version, schemas map[uint16]Schema, dropUndeclared bool) *Transcoder {
	t := &Transcoder{from: from, to: to, schemas: maps.Clone(schemas), undeclared: Passed}
	if dropUndeclared {
		t.undeclared = Dropped
	}
	return t
}

// Transcode returns what to send in place of m's payload: bytes appended to dst, which it returns without what dst held
// before, or m's own after Passed. Nothing is allocated where dst has the room that Schema.Transcode asks for.
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
